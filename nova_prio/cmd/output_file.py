# SPDX-License-Identifier: Apache-2.0

"""Write the files that an option of a command names."""

import contextlib
import os

from osc_lib import exceptions


def write(option, path, text):
    """Write a text to a file, which readers see complete or not at all.

    A symbolic link stays, and its file is written. What is no file, such as
    /dev/null, is written at once.

    :param option: name of the option with the path, such as '--output'
    :param text: str, or bytes
    :raises CommandError: if the file cannot be written
    """
    if isinstance(text, str):
        text = text.encode()
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with report_errors(option, path), open(target, 'wb') as file:
            file.write(text)
        return
    # A rename is atomic in one directory only, so write beside the file first.
    temporary = '%s.%d' % (target, os.getpid())
    with report_errors(option, path), contextlib.ExitStack() as on_error:
        # The module tempfile would make a file that other users cannot read.
        with open(temporary, 'wb') as file:
            on_error.callback(os.unlink, temporary)
            file.write(text)
        os.replace(temporary, target)
        # There was no error, so forget the callback.
        on_error.pop_all()


@contextlib.contextmanager
def report_errors(option, path, problem='cannot be written'):
    """Raise CommandError for an error of a file or a directory.

    Other errors of the block pass unchanged.

    :param option: name of the option with the path, such as '--output-dir'
    :param problem: what cannot be done with the path
    """
    try:
        yield
    except OSError as error:
        raise exceptions.CommandError(
            "%s is '%s', which %s: %s." % (
                option, path, problem, error.strerror)) from error
