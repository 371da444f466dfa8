# SPDX-License-Identifier: Apache-2.0

"""Colors for the output of the commands on a terminal."""

import os

RED, GREEN, YELLOW, MAGENTA, CYAN = 31, 32, 33, 35, 36


def is_wanted(stream):
    """Return whether output to a stream should have colors.

    See https://no-color.org for NO_COLOR.
    """
    return (stream.isatty() and not os.environ.get('NO_COLOR') and
            os.environ.get('TERM') != 'dumb')


def paint(text, color):
    """Return a text in a color, or as it is if the color is None."""
    return text if color is None else '\x1b[%dm%s\x1b[0m' % (color, text)


def leave(text, color):
    """Return a text without a color."""
    return text


def get_painter(stream):
    """Return :func:`paint`, or :func:`leave` if colors are not wanted."""
    return paint if is_wanted(stream) else leave
