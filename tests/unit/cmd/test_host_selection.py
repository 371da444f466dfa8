# SPDX-License-Identifier: Apache-2.0

"""The results of several hosts; the functional tests select hosts of Nova."""

import argparse
import logging
import threading
import types

from osc_lib import exceptions
import pytest

from nova_prio.cmd import host_selection
from nova_prio.cmd import report

HostResult = host_selection.HostResult


class Parent:
    """The base class of the command."""

    placement = True
    takes_plan = False
    app = types.SimpleNamespace(LOG=logging.getLogger('test'))

    def get_parser(self, prog_name):
        parser = argparse.ArgumentParser(prog_name)
        parser.add_argument('--column', dest='columns', action='append',
                            default=[])
        return parser


class Command(host_selection.HostSelection, Parent):
    """A command that takes several hosts."""


def parse(*arguments):
    """Return a command, and its parsed arguments."""
    command = Command()
    return command, command.get_parser('nova-prio').parse_args(arguments)


def run(act, *hosts, concurrency=1):
    """Run a function for hosts; return the command and the results."""
    command, parsed_args = parse('--concurrency', str(concurrency))
    return command, command.run_on_hosts(parsed_args, hosts, act)


@pytest.mark.parametrize('arguments, given', [
    ((), 'no hosts'), (('c1', '--all'), 'HOST and --all'),
    (('c1', '--aggregate', 'a', '--all'), 'HOST and --aggregate and --all')])
def test_exactly_one_kind_of_argument_must_be_given(arguments, given):
    command, parsed_args = parse(*arguments)
    with pytest.raises(exceptions.CommandError) as error:
        command.select_hosts(parsed_args)
    assert ('Given are %s; allowed is exactly one of HOST, --aggregate and '
            '--all.' % given) == str(error.value)


def test_wrong_column_is_refused_before_a_change():
    command, parsed_args = parse('c1', '--column', 'Hosts')
    with pytest.raises(exceptions.CommandError) as error:
        command.run_on_hosts(parsed_args, ['c1'], pytest.fail)
    assert ("--column is 'Hosts'; allowed are Host, State, Problems, Next."
            == str(error.value))


def test_single_host_is_not_looked_up():
    """The command may run on a compute host, without databases."""
    command, parsed_args = parse('c1')
    assert ['c1'] == command.select_hosts(parsed_args)


def test_results_are_in_the_order_of_the_hosts():
    waits = {'c1': threading.Event(), 'c2': threading.Event()}

    def act(context, host):
        if host == 'c1':
            assert waits['c2'].wait(60)
        waits[host].set()
        return HostResult(host)

    _, results = run(act, 'c1', 'c2', concurrency=2)
    assert ['c1', 'c2'] == list(results)
    assert HostResult('c2') == results['c2']


@pytest.mark.parametrize('concurrency', [1, 3])
def test_no_more_hosts_than_concurrency_at_once(concurrency):
    hosts = ['c%d' % number for number in range(3 * concurrency)]
    everyone = threading.Barrier(concurrency)
    active, most = [], []

    def act(context, host):
        active.append(host)
        everyone.wait(60)
        most.append(len(active))
        everyone.wait(60)
        active.remove(host)
        everyone.wait(60)
        return HostResult('ok')

    run(act, *hosts, concurrency=concurrency)
    assert concurrency == max(most)


def test_each_host_has_its_own_context():
    contexts = []

    def act(context, host):
        contexts.append(context)
        return HostResult('ok')

    run(act, 'c1', 'c2', concurrency=2)
    assert contexts[0].is_admin
    assert contexts[0] is not contexts[1]


def test_error_of_one_host_does_not_stop_the_others():
    def act(context, host):
        if host == 'c1':
            raise exceptions.CommandError('The host is refused.')
        if host == 'c2':
            raise KeyError('x')
        return HostResult('ok')

    command, results = run(act, 'c1', 'c2', 'c3')
    columns, rows = command.report_results(results)
    assert ('Host', 'State', 'Problems', 'Next') == columns
    assert [('c1', 'failed', '', 'The host is refused.'),
            ('c2', 'failed', '', "KeyError: 'x'."),
            ('c3', 'ok', '', '')] == rows
    assert report.FAILED == command.status
    assert ('Hosts: 3 (failed: 2, ok: 1). Follow the column "Next", and run '
            'this command again.') == command.last_line


@pytest.mark.parametrize('statuses, worst', [
    ((0, 0), 0), ((0, 3), 3), ((3, 1, 0), 1)])
def test_worst_exit_status_is_that_of_the_command(statuses, worst):
    command, _ = parse()
    command.report_results({
        str(number): HostResult('x', status=status)
        for number, status in enumerate(statuses)})
    assert worst == command.status


def test_interrupt_lets_begun_hosts_end_and_begins_no_other(monkeypatch):
    begun = threading.Event()

    def act(context, host):
        begun.set()
        assert command.interrupted.wait(60)
        return HostResult('waited')

    def interrupt(_, **kwargs):
        assert begun.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(host_selection.tqdm, 'tqdm', interrupt)
    command, parsed_args = parse()
    results = command.run_on_hosts(parsed_args, ['c1', 'c2'], act)
    assert {'c1': 'waited', 'c2': 'interrupted'} == {
        host: result.state for host, result in results.items()}
    assert report.FOUND == results['c2'].status
