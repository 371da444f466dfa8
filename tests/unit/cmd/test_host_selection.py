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


APP = types.SimpleNamespace(LOG=logging.getLogger('test'))


class Command:
    """A command that keeps what it is given to print."""

    app = APP

    def show(self, parsed_args, columns, rows):
        self.columns, self.rows = columns, rows

    def end(self, status, last_line):
        self.last_line = last_line
        return status


def parse(*arguments):
    """Return parsed arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--column', dest='columns', action='append',
                        default=[])
    host_selection.add_options(parser)
    return parser.parse_args(arguments)


def run(act, *hosts, **kwargs):
    """Run a function for hosts; return the results."""
    return host_selection.run_on_hosts(APP, hosts, act, **kwargs)


@pytest.mark.parametrize('arguments, given', [
    ((), 'no hosts'), (('c1', '--all'), 'HOST and --all'),
    (('c1', '--aggregate', 'a', '--all'), 'HOST and --aggregate and --all')])
def test_exactly_one_kind_of_argument_must_be_given(arguments, given):
    with pytest.raises(exceptions.CommandError) as error:
        host_selection.select_hosts(APP, None, parse(*arguments))
    assert ('Given are %s; allowed is exactly one of HOST, --aggregate and '
            '--all.' % given) == str(error.value)


def test_wrong_column_is_refused_before_a_change():
    with pytest.raises(exceptions.CommandError) as error:
        host_selection.show_results(
            None, parse('c1', '--column', 'Hosts'), ['c1'], pytest.fail)
    assert ("--column is 'Hosts'; allowed are Host, State, Problems, Next."
            == str(error.value))


def test_single_host_is_not_looked_up():
    """The command may run on a compute host, without databases."""
    assert ['c1'] == host_selection.select_hosts(APP, None, parse('c1'))


def test_results_are_in_the_order_of_the_hosts():
    waits = {'c1': threading.Event(), 'c2': threading.Event()}

    def act(context, host):
        if host == 'c1':
            assert waits['c2'].wait(60)
        waits[host].set()
        return HostResult(host)

    results = run(act, 'c1', 'c2', concurrency=2)
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

    command = Command()
    status = host_selection.show_results(
        command, parse(), ['c1', 'c2', 'c3'], act)
    assert ('Host', 'State', 'Problems', 'Next') == command.columns
    assert [('c1', 'failed', '', 'The host is refused.'),
            ('c2', 'failed', '', "KeyError: 'x'."),
            ('c3', 'ok', '', '')] == command.rows
    assert report.FAILED == status
    assert ('Hosts: 3 (failed: 2, ok: 1). Follow the column "Next", and run '
            'this command again.') == command.last_line


@pytest.mark.parametrize('statuses, worst', [
    ((0, 0), 0), ((0, 3), 3), ((3, 1, 0), 1)])
def test_worst_exit_status_is_that_of_the_command(statuses, worst):
    status, _ = host_selection.summarize(
        HostResult('x', status=status) for status in statuses)
    assert worst == status


def test_interrupt_lets_begun_hosts_end_and_begins_no_other(monkeypatch):
    begun, interrupted = threading.Event(), threading.Event()

    def act(context, host):
        begun.set()
        assert interrupted.wait(60)
        return HostResult('waited')

    def interrupt(_, **kwargs):
        assert begun.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(host_selection.tqdm, 'tqdm', interrupt)
    results = run(act, 'c1', 'c2', interrupted=interrupted)
    assert {'c1': 'waited', 'c2': 'interrupted'} == {
        host: result.state for host, result in results.items()}
    assert report.FOUND == results['c2'].status
