# SPDX-License-Identifier: Apache-2.0

"""Write the files that an option of a command names."""

import contextlib
import os

from osc_lib import exceptions


def write(option, path, text):
    """Write a text to a file, which readers see complete or not at all.

    :param option: name of the option with the path, such as '--output'
    :param text: str, or bytes
    :raises CommandError: if the file cannot be written
    """
    # A rename is atomic in one directory only.
    temporary = '%s.%d' % (path, os.getpid())
    try:
        with contextlib.ExitStack() as on_error:
            # Other users may have to read the file, as any new file.
            with open(temporary, 'wb') as file:
                on_error.callback(os.unlink, temporary)
                file.write(text.encode() if isinstance(text, str) else text)
            os.replace(temporary, path)
            on_error.pop_all()
    except OSError as error:
        raise exceptions.CommandError(
            "%s is '%s', which cannot be written: %s." % (
                option, path, error.strerror)) from error


def make_directory(option, path):
    """Make a directory, unless it exists.

    :param option: name of the option with the path, such as '--output-dir'
    :raises CommandError: if the directory cannot be made
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise exceptions.CommandError(
            "%s is '%s', which is no directory and cannot be made: %s." % (
                option, path, error.strerror)) from error
