# SPDX-License-Identifier: Apache-2.0

"""Findings that are certain only after a second look.

Nova changes its records of one move in several writes, so that one look may
see a state that does not last.
"""

#: The least time between two looks. Two recounts can follow each other within
#: a second.
LOOK_SECONDS = 30


def is_second(first: float | None, now: float) -> bool:
    """Return whether a second look makes a finding certain.

    The second look must have found something too. It may differ from the first
    finding: what must last is that something is wrong, not its details.

    Nova changes its records of one move in several writes. A look between two
    writes may find a state that does not last, so the second look must be
    ``LOOK_SECONDS`` after the first one.

    :param first: time of the first look, or None without one
    :param now: time of this look
    """
    return first is not None and now - first >= LOOK_SECONDS


class Findings:
    """What the recounts of a host find: a sentence for each instance.

    A recount is the periodic update of nova-compute's resources. A sentence is
    certain after a second look: two recounts, with ``LOOK_SECONDS`` between
    them, have found something for the instance.
    """

    def __init__(self) -> None:
        # UUID -> (time of the first look, the sentence, or '' before the
        # second look): of the last finished recount, and of this one.
        self._last: dict[str, tuple[float, str]] = {}
        self._present: dict[str, tuple[float, str]] = {}

    def begin_recount(self) -> None:
        """Forget what an unfinished recount has found.

        A recount is the periodic update of nova-compute's resources.
        """
        self._present = {}

    def add(self, uuid: str, sentence: str, now: float) -> None:
        """Note what this recount has found for an instance.

        A recount is the periodic update of Nova's resource tracker. The
        sentence is certain if an earlier recount, at least ``LOOK_SECONDS``
        ago, and all since then have found something for the instance too. They
        may have found something else.

        :param sentence: what was found
        :param now: time of this recount, in seconds
        """
        # The time of the first recount that found something for the instance,
        # as all recounts since then have.
        first_look, _ = self._last.get(uuid, (now, ''))
        if not is_second(first_look, now):
            # The sentence is not certain yet, so keep only the time.
            sentence = ''
        self._present[uuid] = first_look, sentence

    def end_recount(self) -> None:
        """Note that the recount has finished: its findings are the last."""
        self._last = self._present

    def get_certain(self) -> str:
        """Return a certain sentence about an instance.

        It is certain if two recounts (periodic updates of Nova's resource
        tracker) have found something for the instance, some time apart. Of
        several certain sentences, this is always the same one.

        :returns: '' if there is none
        """
        # Another thread may end a recount meanwhile, so read the dict once.
        # Its values are (time of the first look, sentence). The sentence is ''
        # while it is not certain.
        findings = list(self._last.values())
        return min((sentence for _, sentence in findings if sentence),
                   default='')
