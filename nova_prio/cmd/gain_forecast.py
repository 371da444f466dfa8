# SPDX-License-Identifier: Apache-2.0

"""How many hosts are enough without and with mix, for ``capacity gain``.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of the host.
"""

import contextlib
import operator

from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import gain_answers
from nova_prio.cmd import gain_input
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain as planner

#: Columns of the vCPUs that servers can have on a host.
SOLD = ('Ratio', 'Dedicated', 'Shared', 'Low Without Mix', 'Low With Mix',
        'vCPUs Per CPU')
#: Percentages of pinned vCPUs, and ratios that are tried by default.
_SHARES, _RATIOS = (10, 30, 50, 70, 90), ('2', '3')
_ASSUMED_SIZES = ('Assumed: the sizes of high- and low-priority servers have '
                  'equal shares.')


def add_options(parser):
    """Add the options to the parser of the command line.

    Mix in their help is the option ``cpu_priority_mix_enable``: low-priority
    servers may also run on the dedicated CPUs of a host.
    """
    parser.add_argument(
        '--what-if', action='store_true',
        help='list how many of the hosts would be enough for their servers, '
        'without and with mix; change nothing')
    parser.add_argument(
        '--low', action='append', default=[], metavar='FLAVOR|PROJECT|all',
        help='with --what-if, the unpinned servers of this flavor (name or '
        'ID) or project (ID), or all of them, would have low priority '
        '(required; repeat option to name several)')
    parser.add_argument(
        '--growth', metavar='PERCENT',
        help='with --what-if, count this much more servers of each size')
    parser.add_argument(
        '--host', metavar='KEY=VALUE,...',
        help='take hosts that do not exist yet: cpus (those that Nova sells), '
        'memory, and optionally cells (NUMA cells, default: 1), disk, '
        'reserved (reserved_host_memory_mb) and small-pages (memory outside '
        'of huge pages, default: all); sizes are such as 512G')
    parser.add_argument(
        '--demand', metavar='FILE',
        help='with --host, list how many hosts are enough for the servers of '
        'this file; without it, list what a host sells')
    parser.add_argument(
        '--ratio', action='append', default=[], metavar='RATIO',
        help='try this CPU allocation ratio (repeat option to try several; '
        'default: %s)' % ' and '.join(_RATIOS))
    parser.add_argument(
        '--html', metavar='FILE',
        help='also write a page to this file, which plots the hosts over the '
        'share of pinned vCPUs')


def show_host(command, parsed_args):
    """List how many hosts like the one of --host are enough for servers.

    Without --demand, there are no servers: list the vCPUs that servers can
    have on one host.

    :param command: ``capacity_gain.ShowGain``
    :returns: exit status
    """
    ratios = _parse_ratios(parsed_args)
    if not parsed_args.demand:
        # The keys that --host must have.
        required = ('cpus',)
        host = gain_input.parse_host(parsed_args.host, required)
        command.show(parsed_args, SOLD, _list_sold(host, ratios))
        return command.end(report.CLEAN, 'Choose the line that sells enough.')
    # With servers, the memory may be the limit.
    required = ('cpus', 'memory')
    host = gain_input.parse_host(parsed_args.host, required)
    # The planner adds hosts like this one until they are enough.
    groups = [first_fit.HostGroup(host, number=1)]
    # Each kind is a number of equal servers.
    kinds = gain_input.load_demand(parsed_args.demand)
    # Those that do not fit even on an empty host.
    misfits = planner.find_misfits(groups, kinds, ratios)
    if misfits:
        raise exceptions.CommandError(
            "--demand is '%s': %s does not fit on an empty host, or on one of "
            'its NUMA cells.' % (
                parsed_args.demand, gain_answers.format_server(misfits[0])))
    # load_demand has returned all servers once with high priority, and once
    # with low priority. The total of their vCPUs must count them once.
    vcpus = planner.count_vcpus(kinds)[cpu_capacity.HIGH]
    comparisons = _compare_shares(groups, kinds, vcpus, ratios)
    return _show(command, parsed_args, comparisons, plotted=comparisons,
                 assumption=_ASSUMED_SIZES)


def show_cloud(command, context, parsed_args, names, listed):
    """List how many hosts of a cloud are enough for the servers on them.

    :param command: ``capacity_gain.ShowGain``
    :param context: nova.context.RequestContext
    :param names: names of the hosts
    :param listed: result of ``host_inventory.list_hosts``
    :returns: exit status
    """
    from nova_prio.admin import cloud_gain
    from nova_prio.admin.fleet import cloud_fleet
    ratios = _parse_ratios(parsed_args)
    growth = report.get_number(
        parsed_args, 'growth', least=0, most=10000, parse=_parse_percent) or 0
    if not parsed_args.hosts:
        records, _ = listed
        unusable = cloud_gain.find_unusable(names, records)
        for name, reason in unusable.items():
            command.app.LOG.warning(
                'Host %s is omitted with its servers: it %s.', name, reason)
        names = [name for name in names if name not in unusable]
        if not names:
            raise exceptions.CommandError(
                '--what-if has no hosts; give some with one compute node, '
                'which is up.')
    fleet = cloud_fleet.read_fleet(
        context, controller.make_placement_client(), listed)
    # With --all, ``select_hosts`` has warned.
    if not parsed_args.all:
        report.warn_of_silent_cells(command.app, fleet.silent_cells)
    # Name of a host -> HostFit, without the hosts with several compute nodes.
    hosts = fleet.list_empty_hosts(names)
    for name in names:
        if name not in hosts:
            # This raises CommandError, and so does the call below.
            report.refuse('HOST', name, 'names of hosts with one compute node')
    try:
        # A list of ``first_fit.Kind``, each a number of equal servers with the
        # priority that they would have.
        found = cloud_gain.read_kinds(fleet, names, parsed_args.low)
    except cloud_gain.UnknownLabel as error:
        report.refuse('--low', error, 'all, the names and IDs of flavors, and '
                      'the IDs of projects, of the servers on the hosts')
    groups = planner.group_hosts(hosts.values())
    # Servers that fit on no empty host, or refuse one with mix.
    left_out = planner.find_misfits(groups, found, ratios)
    kinds = planner.grow(
        [kind for kind in found if kind not in left_out], growth)
    # 'high' and 'low' -> number of vCPUs of these servers.
    vcpus = planner.count_vcpus(kinds)
    total = sum(vcpus.values())
    # Without servers, no part is pinned: do not divide by 0.
    pinned_percent = round(100 * vcpus[cpu_capacity.HIGH] / (total or 1))
    comparisons = _compare(groups, kinds, pinned_percent, ratios)
    plotted = list(comparisons)
    # The share of pinned vCPUs can be changed if there are servers of both
    # priorities. Only the page shows other shares than the present one.
    has_both_priorities = all(vcpus.values())
    if parsed_args.html and has_both_priorities:
        plotted += _compare_shares(groups, kinds, total, ratios)
    plotted.sort(key=operator.attrgetter('pinned_percent'))
    assumption = _describe(
        kinds, left_out, growth, parsed_args.low, len(names))
    return _show(command, parsed_args, comparisons, plotted, assumption)


def _parse_percent(text):
    """Return the number of a percentage such as ``20%``."""
    return cpu_capacity.parse_ratio(text.removesuffix('%'))


def _parse_ratios(parsed_args):
    """Return the CPU allocation ratios to try, a list of Decimal.

    :raises CommandError: if a ratio is wrong
    """
    ratios = []
    for text in parsed_args.ratio or _RATIOS:
        # A text that is no number is refused as 0 is.
        ratio = 0
        with contextlib.suppress(ValueError):
            ratio = cpu_capacity.parse_ratio(text)
        if not 0 < ratio <= cpu_capacity.MOST_RATIO:
            report.refuse('--ratio', text, 'numbers above 0, up to %d'
                          % cpu_capacity.MOST_RATIO)
        ratios.append(ratio)
    return ratios


def _list_sold(fit, ratios):
    """Return the vCPUs that servers can have on a host, the rows of ``SOLD``.

    There is a row for each ratio and each number of dedicated CPUs that the
    NUMA cells can share equally. Mix lets low-priority servers run on the
    dedicated CPUs too.

    :param fit: ``host_fit.HostFit``, an empty host whose CPUs are all shared
    :param ratios: list of Decimal, CPU allocation ratios
    :returns: list of tuples with the values of ``SOLD``
    """
    rows = []
    cpus = len(fit.host.report.cpus.shared)
    for ratio in ratios:
        for dedicated in range(0, cpus + 1, len(fit.cells)):
            shared = cpus - dedicated
            without = cpu_capacity.calculate_sellable(
                dedicated, shared, ratio, mix=False)
            # nova-compute refuses mix unless both CPU sets are given.
            can_mix = bool(dedicated and shared)
            mixed = cpu_capacity.calculate_sellable(
                dedicated, shared, ratio, mix=can_mix)
            # All vCPUs are pinned ones, ``high``, or others, ``low``.
            vcpus_per_cpu = round((mixed.high + mixed.low) / cpus, 4)
            rows.append((float(ratio), dedicated, shared, without.low,
                         mixed.low, vcpus_per_cpu))
    return rows


def _compare(groups, kinds, pinned_percent, ratios):
    """Return the hosts that are enough without and with mix for each ratio.

    Mix lets low-priority servers run on the dedicated CPUs of a host too.

    :param groups: list of ``first_fit.HostGroup``, numbers of equal hosts
    :param kinds: list of ``first_fit.Kind``, each a number of equal servers
    :param pinned_percent: the part of their vCPUs that is pinned, for the
        result
    :param ratios: list of Decimal, CPU allocation ratios
    :returns: list of ``gain_answers.Comparison``
    """
    comparisons = []
    for ratio in ratios:
        without = planner.find_fewest(
            groups, kinds, planner.Setup(ratio, mix=False))
        mixed = planner.find_fewest(
            groups, kinds, planner.Setup(ratio, mix=True))
        comparisons.append(gain_answers.Comparison(
            pinned_percent=pinned_percent, without=without, mixed=mixed))
    return comparisons


def _compare_shares(groups, kinds, vcpus, ratios):
    """Return the hosts that are enough for several parts of pinned vCPUs.

    For each part and each ratio, compare the hosts without and with mix, which
    lets low-priority servers run on the dedicated CPUs too.

    :param groups: list of ``first_fit.HostGroup``, numbers of equal hosts
    :param kinds: list of ``first_fit.Kind``, each a number of equal servers;
        their numbers are changed to reach each part
    :param vcpus: number of vCPUs of the servers with a priority; 0 if there
        are no servers
    :param ratios: list of Decimal, CPU allocation ratios
    :returns: list of ``gain_answers.Comparison``
    """
    comparisons = []
    for pinned_percent in _SHARES:
        changed = []
        if vcpus:
            changed = planner.change_share(kinds, vcpus, pinned_percent)
        comparisons += _compare(groups, changed, pinned_percent, ratios)
    return comparisons


def _show(command, parsed_args, comparisons, plotted, assumption):
    """Print comparisons, and write the page; return the exit status.

    :param comparisons: list of ``gain_answers.Comparison``
    :param plotted: the same for the page, sorted by the part of pinned vCPUs
    :param assumption: the sentences at the end
    """
    last_line = '%s %s' % (gain_answers.summarize(comparisons), assumption)
    columns = gain_answers.COLUMNS
    if parsed_args.html:
        from nova_prio.admin.page import gain_page
        from nova_prio.admin.page import templates
        page = gain_page.GainPage(
            title='Hosts with and without mix', lead=[last_line],
            plots=gain_answers.make_plots(plotted), columns=columns,
            rows=gain_answers.make_rows(plotted))
        output_file.write(
            '--html', parsed_args.html, templates.render_gain(page))
    command.show(parsed_args, columns, gain_answers.make_rows(comparisons))
    return command.end(report.CLEAN, last_line)


def _describe(kinds, left_out, growth, low, host_count):
    """Return the sentences about the servers of a cloud.

    :param kinds: list of ``first_fit.Kind``, each a number of equal servers
    :param left_out: other servers, in the same form: they fit on no empty
        host, or refuse one with mix, which lets low-priority servers run on
        its dedicated CPUs
    :param growth: percent by which the numbers of servers were increased
    :param low: list of the values of --low: flavors and projects whose servers
        are assumed to have low priority, or 'all'
    :param host_count: number of hosts
    """
    # Priority, or None without one -> number of servers.
    numbers = dict.fromkeys((*cpu_capacity.PRIORITIES, None), 0)
    for kind in kinds:
        numbers[kind.needs.request.priority] += kind.number
    text = (
        'Hosts now: %d. Assumed: %d pinned servers have high priority, '
        '%d servers have low priority (--low %s), and %d others stay ordinary '
        'and gain nothing; growth %s %%.' % (
            host_count, numbers[cpu_capacity.HIGH], numbers[cpu_capacity.LOW],
            ' '.join(low), numbers[None], growth))
    if left_out:
        text += (' Left out: %d servers that no mix host takes, or that fit '
                 'on no empty host.' % sum(kind.number for kind in left_out))
    return text
