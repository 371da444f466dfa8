# SPDX-License-Identifier: Apache-2.0

"""Run commands of nova-prio on the databases of a test."""

import contextlib
import io
import json
from unittest import mock
import warnings

from nova import context

from nova_prio.cmd import main


class Terminal(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self):
        """Return whether this is a terminal."""
        return True


def run(*arguments, options=('-f', 'json'), load=json.loads):
    """Run a command of nova-prio in this process.

    :param arguments: name of the command, and its arguments
    :param options: output options; empty for a command that prints no list
    :param load: function that reads the standard output
    :returns: (exit status, rows as a list of dict or None, standard error)
    """
    out, err = io.StringIO(), io.StringIO()
    with (mock.patch('nova_prio.cmd.controller.configure_nova',
                     lambda *args, **kwargs: contextlib.nullcontext(
                         context.get_admin_context())),
          warnings.catch_warnings(),
          contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
        # Test runners print these warnings, nova-prio does not.
        warnings.simplefilter('ignore', DeprecationWarning)
        status = main.main([*arguments, *options])
    return status, load(out.getvalue() or 'null'), err.getvalue()
