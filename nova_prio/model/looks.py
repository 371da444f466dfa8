# SPDX-License-Identifier: Apache-2.0

"""Findings that are certain only after a second look.

Nova changes its records of one move in several writes, so that one look may
see a state that does not last.
"""

#: The least time between two looks. Two recounts can follow each other within
#: a second.
LOOK_SECONDS = 30


def is_second(first: float | None, now: float) -> bool:
    """Return whether a look is the second one.

    :param first: time of the first look, or None without one
    :param now: time of this look
    """
    return first is not None and now - first >= LOOK_SECONDS


class Findings:
    """What the recounts of a host find: a sentence for each instance."""

    def __init__(self) -> None:
        # UUID -> (time of the first look, the sentence, or '' before the
        # second look): of the last finished recount, and of this one.
        self._last: dict[str, tuple[float, str]] = {}
        self._present: dict[str, tuple[float, str]] = {}

    def begin_recount(self) -> None:
        """Forget what an unfinished recount has found."""
        self._present = {}

    def add(self, uuid: str, sentence: str, now: float) -> None:
        """Note what this recount has found for an instance."""
        first, _ = self._last.get(uuid, (now, ''))
        if not is_second(first, now):
            sentence = ''
        self._present[uuid] = first, sentence

    def end_recount(self) -> None:
        """Note that the recount has finished."""
        self._last = self._present

    def get_certain(self) -> str:
        """Return a sentence that two looks agree on, or ''."""
        return min((sentence for _, sentence in list(self._last.values())
                    if sentence), default='')
