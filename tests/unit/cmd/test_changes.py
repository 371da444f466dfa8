# SPDX-License-Identifier: Apache-2.0

import argparse
import io
import logging
import re
import types

from osc_lib import exceptions
import pytest

from nova_prio.cmd import changes
from tests import commands

QUESTION = 'Disable the host c1?'


def make_app(stdin):
    """Return the application of a command."""
    return types.SimpleNamespace(
        stdin=stdin, stderr=io.StringIO(), LOG=logging.getLogger('test'))


def ask(stdin, *arguments):
    """Ask QUESTION; return standard error."""
    app, parser = make_app(stdin), argparse.ArgumentParser()
    changes.add_options(parser)
    changes.confirm(app, parser.parse_args(arguments), QUESTION)
    return app.stderr.getvalue()


@pytest.mark.parametrize('answer', ['y', 'Y', 'yes', ' yes '])
def test_yes_allows_the_change(answer):
    assert QUESTION + ' [y/N] ' == ask(commands.Terminal(answer + '\n'))


@pytest.mark.parametrize('answer', ['', '\n', 'n\n', 'yep\n'])
def test_other_answers_refuse_the_change(answer):
    with pytest.raises(exceptions.CommandError) as error:
        ask(commands.Terminal(answer))
    assert "Nothing was changed: the answer was '%s', not 'y'." % (
        answer.strip()) == str(error.value)


@pytest.mark.parametrize('stdin, arguments', [
    (commands.Terminal('n\n'), ['--yes']), (io.StringIO('n\n'), [])])
def test_no_question_with_yes_or_without_terminal(stdin, arguments):
    assert '' == ask(stdin, *arguments)
    assert 'n\n' == stdin.read()


def test_change_is_logged_with_its_time(caplog):
    changes.log_change(
        make_app(io.StringIO()), 'Host %s: disabled.', 'c1')
    assert re.fullmatch(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d Host c1: disabled\.',
                        caplog.messages[0])
