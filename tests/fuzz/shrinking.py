# SPDX-License-Identifier: Apache-2.0

"""Make a failing sequence of operations shorter (delta debugging)."""

import time


def shrink(lines, play, seconds):
    """Return a shorter sequence that still fails.

    Parts of the sequence are left out: first halves, then ever smaller parts.

    :param lines: a sequence that fails, a list
    :param play: function that takes a sequence; it returns the part of it that
        was played up to the failure, or None if there was no failure
    :param seconds: begin no further attempt after this time
    :returns: the shortest sequence found, a list
    """
    deadline = time.monotonic() + seconds
    parts = 2
    while len(lines) > 1:
        shorter = _leave_out_part(lines, parts, play, deadline)
        if shorter is not None:
            lines, parts = shorter, max(parts - 1, 2)
        elif parts >= len(lines) or time.monotonic() >= deadline:
            break
        else:
            parts = min(2 * parts, len(lines))
    return lines


def _leave_out_part(lines, parts, play, deadline):
    """Return a failing sequence without one part, or None."""
    size = -(-len(lines) // parts)
    for start in range(0, len(lines), size):
        if time.monotonic() >= deadline:
            return None
        failing = play(lines[:start] + lines[start + size:])
        if failing is not None:
            return failing
    return None
