# SPDX-License-Identifier: Apache-2.0

"""Tests that parse each command of this package in the documentation."""

import pathlib
import re
import shlex

from cliff import commandmanager
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
import pytest

from nova_prio.cmd import main
from nova_prio.cmd import status
from nova_prio_host import command as host_command
from tests import commands
from tests import pages

#: Characters of the shell that end a command.
_OPERATORS = re.compile(r'[|<>;&]+')
_BEFORE = re.compile(r'^(?:sudo|docker (?:exec|run --rm) \S+) ')
_NAME = re.compile('nova-prio|openstack priority')
_LITERAL = re.compile(r'``(nova-prio(?:-host|-status)?\s[^`]+)``')


def _parser(words, group=main.NAMESPACE):
    """Return the parser of a command, and its arguments.

    :param words: the command line without the program, a list of str
    :param group: the group of the entry points
    """
    found = commandmanager.CommandManager('none')
    entry_points = commands.load_entry_points(group)
    for name, command in entry_points.items():
        found.add_command(name, command)
    command, name, arguments = found.find_command(words)
    # cliff also accepts an abbreviated name.
    assert name in entry_points
    return command(None, None).get_parser('nova-prio ' + name), arguments


def _parse(words):
    parser, arguments = _parser(words)
    parser.parse_args(arguments)


def _parse_client(words):
    if words[0] == 'priority':
        parser, arguments = _parser(words, 'openstack.priority.v1')
        parser.parse_args(arguments)


def _parse_host(words):
    host_command.build_parser().parse_args(words)


def _parse_status(words):
    conf = cfg.ConfigOpts()
    upgradecheck.register_cli_options(conf, status.Checks(conf))
    conf(words, project='nova', default_config_files=[],
         default_config_dirs=[])


PARSE = {'nova-prio': _parse, 'nova-prio-host': _parse_host,
         'nova-prio-status': _parse_status, 'openstack': _parse_client}


def _lines():
    """Return the command lines of this package as parameters of a test."""
    for language in ('console', 'text'):
        for text, where in pages.snippets(language):
            for line in text.replace('\\\n', ' ').splitlines():
                prompt, _, line = line.strip().partition(' ')
                if prompt not in ('$', '#') or not _NAME.search(line):
                    continue
                words = _words(_BEFORE.sub('', line))
                if words[0] in PARSE:
                    yield pytest.param(words, id='%s: %s' % (
                        where, ' '.join(words)))


def _words(line):
    """Return the words of the first command of a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters = ''
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if _OPERATORS.fullmatch(word):
            break
        words.append(word)
    # The program may have a directory, such as /opt/nova/bin/nova-prio.
    return [pathlib.PurePath(words[0]).name, *words[1:]]


def _literals():
    """Return the commands in the running text as parameters of a test."""
    for page in pages.PAGES:
        for number, text in enumerate(_LITERAL.findall(page.read_text())):
            words = text.split()
            yield pytest.param(words, id='%s-%d: %s' % (
                page.relative_to(pages.ROOT), number, ' '.join(words)))


@pytest.mark.parametrize('words', list(_lines()))
def test_command_line_is_understood(words):
    program, *arguments = words
    PARSE[program](arguments)


@pytest.mark.parametrize('words', list(_literals()))
def test_command_in_the_text_exists(words):
    """The command may lack required arguments, but no option is unknown."""
    program, *arguments = words
    if program != 'nova-prio':
        PARSE[program](arguments)
        return
    parser, arguments = _parser(arguments)
    for option in re.findall(r'(?<!\S)-\S+', ' '.join(arguments)):
        assert re.search(r'(?<!\S)%s\b' % option, parser.format_help())


def test_lines_of_each_program_were_found():
    assert set(PARSE) == {parameter.values[0][0] for parameter in _lines()}
