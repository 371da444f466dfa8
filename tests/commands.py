# SPDX-License-Identifier: Apache-2.0


"""The commands that read Nova's databases, on those of a bed."""

import contextlib
import io
import json
from unittest import mock

from nova import context

from nova_prio.cmd import main


def run(*arguments, options=('-f', 'json')):
    """Run a command that lists something.

    :param options: what says how, none for a command that lists nothing
    :returns: (exit status, list of dict or None, what it says besides)
    """
    out, err = io.StringIO(), io.StringIO()
    with (mock.patch('nova_prio.cmd.controller.nova',
                     lambda parsed_args: contextlib.nullcontext(
                         context.get_admin_context())),
          contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
        status = main.main([*arguments, *options])
    return status, json.loads(out.getvalue() or 'null'), err.getvalue()
