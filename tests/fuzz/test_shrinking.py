# SPDX-License-Identifier: Apache-2.0

"""A failing sequence of operations is made shorter."""

from tests.fuzz import shrinking

LINES = [str(number) for number in range(50)]


def _play(lines):
    """Fail at the first "42" after a "7"."""
    for count, line in enumerate(lines, start=1):
        if line == '42' and '7' in lines[:count]:
            return lines[:count]
    return None


def test_only_needed_lines_stay():
    assert ['7', '42'] == shrinking.shrink(LINES, _play, seconds=60)


def test_one_line_stays():
    assert ['1'] == shrinking.shrink(
        ['0', '1'], lambda lines: lines or None, seconds=60)


def test_no_time_is_left():
    assert LINES == shrinking.shrink(LINES, _play, seconds=0)
