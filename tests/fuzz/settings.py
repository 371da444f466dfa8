# SPDX-License-Identifier: Apache-2.0

"""Read what the environment sets: numbers, and a file with operations."""

import inspect
import os
import pathlib
import re

from tests.fuzz import operations


def read_number(name, default, least=0):
    """Return the whole number in a variable of the environment.

    :param default: the number if the variable is not set, or empty
    :param least: the least number that is allowed
    :raises ValueError: with a sentence
    """
    text = os.environ.get(name) or str(default)
    if not re.fullmatch('[0-9]+', text) or int(text) < least:
        raise ValueError('%s=%s is not a whole number of at least %d' % (
            name, text, least))
    return int(text)


def read_operations(name):
    """Return the lines of the file in a variable, lists of str.

    :returns: list, or None if the variable is not set, or empty
    :raises ValueError: with a sentence, if there is no such file, or if a line
        is not an operation with its arguments
    """
    path = os.environ.get(name)
    if not path:
        return None
    try:
        text = pathlib.Path(path).read_text()
    except OSError as error:
        raise ValueError('%s=%s cannot be read: %s' % (
            name, path, error.strerror)) from None
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        expected = _ARGUMENTS.get(words[0])
        if expected is None:
            raise ValueError('Line %d of %s: there is no operation "%s"' % (
                number, path, words[0]))
        if len(words) - 1 != len(expected):
            raise ValueError('Line %d of %s: the words after "%s" must '
                             'be %s' % (number, path, words[0],
                                        ', '.join(expected)))
        found.append(words)
    if not found:
        raise ValueError('%s=%s has no operation' % (name, path))
    return found


def _list_arguments():
    """Return dict, operation -> names of its arguments."""
    arguments = {}
    for name, method in inspect.getmembers(
            operations.Operations, inspect.isfunction):
        if not name.startswith('_') and name != 'possible':
            arguments[name] = list(inspect.signature(method).parameters)[1:]
    return arguments


_ARGUMENTS = _list_arguments()
