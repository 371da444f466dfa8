# SPDX-License-Identifier: Apache-2.0

"""Load the commands of this tree, and run them on the databases of a test."""

import configparser
import contextlib
import importlib
import io
import json
import re
from unittest import mock
import warnings

from nova import context

from nova_prio.cmd import main
from tests import pages


class Terminal(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self):
        """Return whether this is a terminal."""
        return True


def load_entry_points(group):
    """Return the commands of a group in setup.cfg, dict, name -> class.

    The installed entry points may be older than this tree.
    """
    setup = configparser.ConfigParser()
    setup.read(pages.ROOT / 'setup.cfg')
    found = {}
    for line in setup['entry_points'][group].split('\n')[1:]:
        name, target = re.split(r'\s*=\s*', line)
        module, _, attribute = target.partition(':')
        found[name.replace('_', ' ')] = getattr(
            importlib.import_module(module), attribute)
    return found


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
