# SPDX-License-Identifier: Apache-2.0

"""Each command and each option is marked as stable or new."""

import pytest

from nova_prio import conf
from nova_prio.model import maturity
from nova_prio_host import command as host_command
from tests import commands

#: Commands whose parser is no entry point.
_OTHERS = {'nova-prio-host', 'nova-prio-status upgrade check'}


def _list_parsers():
    """Return the parsers of the commands, by program and command."""
    parsers = {'nova-prio-host': host_command.build_parser()}
    for group, program in (('nova_prio.cli', 'nova-prio'),
                           ('openstack.priority.v1', 'openstack')):
        for name, command in commands.load_entry_points(group).items():
            name = '%s %s' % (program, name)
            parsers[name] = command(None, None).get_parser(name)
    return parsers


PARSERS = _list_parsers()


def test_each_command_is_marked():
    assert PARSERS.keys() | _OTHERS == maturity.COMMANDS.keys()


@pytest.mark.parametrize('name', PARSERS)
def test_each_option_of_a_command_is_marked(name):
    options = set()
    for action in PARSERS[name]._actions:
        # The other groups of cliff have the options of the output.
        if action.option_strings and action.container.title == 'options':
            options.add(action.option_strings[-1])
    options.remove('--help')
    assert options == maturity.COMMANDS[name].get_options().keys()


@pytest.mark.parametrize('name', PARSERS)
def test_help_says_the_maturity(name):
    text = ' '.join(PARSERS[name].format_help().split())
    # argparse breaks lines after hyphens.
    text = text.replace('- ', '-')
    assert maturity.COMMANDS[name].describe() in text


def test_new_options_are_named():
    command = maturity.Command(maturity=maturity.STABLE, stable='--all',
                               new='--fast --safe --sound')
    assert command.describe() == (
        'Maturity: stable, but --fast, --safe and --sound are new.')


def test_options_of_a_new_command_are_not_named():
    command = maturity.Command(maturity=maturity.NEW, new='--fast')
    assert command.describe() == 'Maturity: new.'
    assert command.get_options() == {'--fast': maturity.NEW}


def test_each_option_of_nova_conf_is_marked():
    names = set()
    for _, options in conf.list_opts():
        for option in options:
            names.add(option.name)
            assert option.help.endswith(
                '\nMaturity: %s\n' % maturity.OPTIONS[option.name])
    assert names == maturity.OPTIONS.keys()
