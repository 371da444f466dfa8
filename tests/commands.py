# SPDX-License-Identifier: Apache-2.0


"""The commands that read Nova's databases, on those of a bed."""

import contextlib
import io
import json
from unittest import mock
import warnings

from nova import context

from nova_prio.cmd import main


def run(*arguments, options=('-f', 'json')):
    """Run a command that lists something.

    :param options: what says how, none for a command that lists nothing
    :returns: (exit status, list of dict or None, what it says besides)
    """
    out, err = io.StringIO(), io.StringIO()
    with (mock.patch('nova_prio.cmd.controller.configure_nova',
                     lambda parsed_args: contextlib.nullcontext(
                         context.get_admin_context())),
          warnings.catch_warnings(),
          contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
        # Test runners show these warnings. Operators do not see them.
        warnings.simplefilter('ignore', DeprecationWarning)
        status = main.main([*arguments, *options])
    return status, json.loads(out.getvalue() or 'null'), err.getvalue()
