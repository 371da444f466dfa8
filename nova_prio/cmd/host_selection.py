# SPDX-License-Identifier: Apache-2.0

"""The hosts that a command works on, and one row of results for each host."""

import collections
from concurrent import futures
import os
import typing

from osc_lib import exceptions
import tqdm
from tqdm.contrib import logging as tqdm_logging

from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio_host import command as host_command

#: States of a host that every command may return.
FAILED, INTERRUPTED = 'failed', 'interrupted'
#: Maximum number of hosts that a question names.
_MAX_NAMES = 10


def format_names(hosts):
    """Return a short text with the names of hosts, for a question."""
    if len(hosts) == 1:
        return 'host ' + hosts[0]
    more = ', ...' if len(hosts) > _MAX_NAMES else ''
    names = ', '.join(hosts[:_MAX_NAMES])
    return '%d hosts: %s%s' % (len(hosts), names, more)


def is_one_host(parsed_args):
    """Return whether a command is about one host, given as HOST.

    The output of such a command is about the details of the host.
    """
    return len(parsed_args.hosts) == 1


class HostResult(typing.NamedTuple):
    """The result of a command for one host.

    ``state`` is a word. ``amount`` is the number in the column that the
    command names, '' if it is unknown. ``next_step`` is a sentence for the
    operator, ``status`` the exit status: CLEAN, FAILED or FOUND.
    """

    state: str
    amount: int | str = ''
    next_step: str = ''
    status: int = report.CLEAN


def add_options(parser):
    """Add the arguments of commands that work on one host or on several."""
    add_host_options(parser)
    parser.add_argument(
        '--concurrency', default=1, metavar='N',
        type=host_command.parse_number,
        help='work on at most N hosts at once (default: %(default)s)')


def add_host_options(parser):
    """Add the arguments that name the hosts, for :func:`select_hosts`."""
    parser.add_argument('hosts', nargs='*', metavar='HOST',
                        help='name of a compute host')
    parser.add_argument(
        '--aggregate', action='append', default=[], metavar='NAME',
        help='take the hosts of this host aggregate (repeat option to take '
        'those of multiple aggregates)')
    parser.add_argument(
        '--all', action='store_true', help='take all compute hosts')


def add_plan_option(parser):
    """Add the option --plan."""
    parser.add_argument(
        '--plan', metavar='PATH',
        help='output of "host plan -f json" from before the host was '
        'changed, or the directory that "host plan --output-dir" has written')


def check_plan(parsed_args):
    """Raise CommandError if --plan is one file for several hosts."""
    if (parsed_args.plan is not None and not is_one_host(parsed_args) and
            not os.path.isdir(parsed_args.plan)):
        report.refuse('--plan', parsed_args.plan,
                      'directories of plans, for several hosts')


def load_plan(parsed_args, host):
    """Return the ``SavedPlan`` of a host, or None without --plan."""
    from nova_prio.admin.host import plan_format
    if parsed_args.plan is None:
        return None
    return plan_format.load_plan(parsed_args.plan, host)


def select_hosts(app, context, parsed_args, listed=None):
    """Return the names of the hosts in their order, each once.

    A single HOST is not checked: the command may run without databases.

    :param app: the ``main.NovaPrio`` of the command
    :param context: nova.context.RequestContext
    :param listed: result of ``host_inventory.list_hosts``, if the caller has
        it, or None
    :raises CommandError: unless HOST, --aggregate or --all is given, and only
        one of them; or if an aggregate is unknown or has no hosts, or the
        cloud has no compute hosts
    :raises nova.exception.HostMappingNotFound: if a host is unknown
    """
    from nova import objects

    from nova_prio.admin import host_inventory
    # Each argument that may name hosts, and its value.
    arguments = {'HOST': parsed_args.hosts,
                 '--aggregate': parsed_args.aggregate,
                 '--all': parsed_args.all}
    given = [name for name, value in arguments.items() if value]
    if len(given) != 1:
        raise exceptions.CommandError(
            'Given are %s; allowed is exactly one of HOST, --aggregate and '
            '--all.' % (' and '.join(given) or 'no hosts'))
    if parsed_args.all:
        hosts, silent_cells = listed or host_inventory.list_hosts(context)
        report.warn_of_silent_cells(app, silent_cells)
        if not hosts:
            raise exceptions.CommandError(
                '--all is given, but Nova has no compute hosts.')
        names = [host.name for host in hosts]
    elif parsed_args.aggregate:
        names = []
        for aggregate in parsed_args.aggregate:
            names += report.get_aggregate_hosts(
                context, '--aggregate', aggregate)
    else:
        names = parsed_args.hosts
        if len(names) > 1:
            # This raises HostMappingNotFound for an unknown host.
            for name in names:
                objects.HostMapping.get_by_host(context, name)
    return list(dict.fromkeys(names))


def act_on_hosts(command, context, parsed_args, hosts, act,
                 amount_column='Problems', interrupted=None):
    """Call a function for one host, or for several hosts and list the results.

    For one host, ``act`` shows the details of the host itself.

    :param command: ``report.Report``
    :param context: nova.context.RequestContext
    :param hosts: names of the hosts
    :param act: function of a nova.context.RequestContext and the name of a
        host that returns a HostResult
    :param amount_column: name of the column with ``HostResult.amount``
    :param interrupted: threading.Event that is set after Ctrl-C
    :returns: exit status
    """
    if not is_one_host(parsed_args):
        return show_results(
            command, parsed_args, hosts, act, amount_column, interrupted)
    result = act(context, hosts[0])
    return command.end(result.status, result.next_step)


def show_results(command, parsed_args, hosts, act, amount_column='Problems',
                 interrupted=None):
    """Call a function for each host, and list the results.

    :param command: ``report.Report``
    :param hosts: names of the hosts
    :param act: function of a nova.context.RequestContext and the name of a
        host that returns a HostResult
    :param amount_column: name of the column with ``HostResult.amount``
    :param interrupted: threading.Event that is set after Ctrl-C
    :returns: exit status
    :raises CommandError: if --column names a column that does not exist
    """
    columns = 'Host', 'State', amount_column, 'Next'
    report.check_columns(parsed_args, columns)
    results = run_on_hosts(
        command.app, hosts, act, parsed_args.concurrency, interrupted)
    command.show(parsed_args, columns, [
        (host, result.state, result.amount, result.next_step)
        for host, result in results.items()])
    status, last_line = summarize(results.values())
    return command.end(status, last_line)


def run_on_hosts(app, hosts, act, concurrency=1, interrupted=None):
    """Call a function for each host, in threads; return all results.

    An error of one host does not stop the others. If Ctrl-C interrupts the
    command, no further host is begun.

    :param app: the ``main.NovaPrio`` of the command
    :param hosts: names of the hosts
    :param act: function of a nova.context.RequestContext and the name of a
        host that returns a HostResult
    :param concurrency: maximum number of hosts at once
    :param interrupted: threading.Event that is set after Ctrl-C. If ``act``
        waits, it must end the wait then. None if ``act`` does not wait.
    :returns: dict, name of a host -> HostResult
    """
    from nova import context
    with (futures.ThreadPoolExecutor(concurrency) as executor,
          # Changes are logged above the progress.
          tqdm_logging.logging_redirect_tqdm([app.LOG])):
        # Threads must not share a context: its database session and its cell
        # belong to one task.
        tasks = {host: executor.submit(
            act, context.get_admin_context(), host) for host in hosts}
        try:
            # disable=None shows the progress on a terminal only.
            for _ in tqdm.tqdm(futures.as_completed(tasks.values()),
                               total=len(hosts), unit=' hosts', leave=False,
                               disable=None):
                pass
        except KeyboardInterrupt:
            # Cancel the waiting tasks before the running ones are told to end:
            # a thread whose task ends begins the next waiting task.
            executor.shutdown(wait=False, cancel_futures=True)
            if interrupted:
                interrupted.set()
    return {host: _get_result(task) for host, task in tasks.items()}


def summarize(results):
    """Return the exit status and the last line for the results of hosts.

    :param results: iterable of HostResult
    :returns: (exit status, sentences)
    """
    counts = collections.Counter()
    statuses = set()
    for result in results:
        counts[result.state] += 1
        statuses.add(result.status)
    states = ', '.join('%s: %d' % (state, count)
                       for state, count in sorted(counts.items()))
    line = 'Hosts: %d (%s). Follow the column "Next"' % (
        counts.total(), states)
    # The worst status first.
    for status in report.FAILED, report.FOUND:
        if status in statuses:
            return status, line + ', and run this command again.'
    return report.CLEAN, line + '.'


def _get_result(task):
    """Return the HostResult of a host, also if an error ended its task.

    :param task: future of the function that works on the host
    """
    from nova_prio.admin import host_inventory
    if task.cancelled():
        # Ctrl-C came before the task began. The exit status FOUND tells the
        # operator to act.
        return HostResult(INTERRUPTED, next_step='Run this command again.',
                          status=report.FOUND)
    try:
        # This raises CommandError, with a sentence, for the errors of Nova,
        # Placement and this package.
        with controller.report_errors():
            return task.result()
    except exceptions.CommandError as error:
        sentence = str(error)
    except Exception as error:
        # An unexpected error must not lose the results of the other hosts.
        sentence = '%s: %s.' % (type(error).__name__,
                                host_inventory.format_first_line(error))
    return HostResult(FAILED, next_step=sentence, status=report.FAILED)
