# SPDX-License-Identifier: Apache-2.0

"""How many hosts are enough without and with mix, for ``capacity gain``.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of the host.
"""

import contextlib

from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import gain_input
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.model import capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain

#: Columns of the hosts that are enough, and of the vCPUs that a host sells.
COLUMNS = ('Pinned %', 'Ratio', 'Mix', 'Dedicated', 'Shared', 'Hosts',
           'At Least', 'Limit', 'Hosts %')
SOLD = ('Ratio', 'Dedicated', 'Shared', 'Low Without Mix', 'Low With Mix',
        'vCPUs Per CPU')
#: Percentages of pinned vCPUs, and ratios that are tried by default.
_SHARES, _RATIOS = (10, 30, 50, 70, 90), ('2', '3')
_ASSUMED_SIZES = ('Assumed: the sizes of high- and low-priority servers have '
                  'equal shares.')


def add_options(parser):
    """Add the options to the parser of the command line."""
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
    """List the hosts that are enough, or what a host sells; return the status.

    :param command: ``capacity_gain.Gain``
    """
    ratios = _parse_ratios(parsed_args)
    if not parsed_args.demand:
        host = gain_input.parse_host(parsed_args.host, ('cpus',))
        command.show(parsed_args, SOLD, _list_sold(host, ratios))
        return command.end(report.CLEAN, 'Choose the line that sells enough.')
    host = gain_input.parse_host(parsed_args.host, ('cpus', 'memory'))
    groups = [first_fit.Group(host, number=1)]
    kinds = gain_input.load_demand(parsed_args.demand)
    for kind in gain.find_misfits(groups, kinds, ratios):
        request = kind.needs.request
        raise exceptions.CommandError(
            "--demand is '%s': a %s-priority server of %d vCPUs, %d MB and %d "
            'GB of disk does not fit on an empty host, or on one of its NUMA '
            'cells.' % (parsed_args.demand, request.priority, request.vcpus,
                        request.memory_mb, kind.needs.disk_gb))
    # Each size is there once for each priority.
    vcpus = gain.count_vcpus(kinds)[capacity.HIGH]
    answers = _forecast_shares(groups, kinds, vcpus, ratios)
    return _show(command, parsed_args, answers, answers, _ASSUMED_SIZES)


def show_cloud(command, context, parsed_args, names):
    """List how many hosts of a cloud are enough; return the status.

    :param command: ``capacity_gain.Gain``
    :param context: nova.context.RequestContext
    :param names: names of the hosts
    """
    from nova_prio.admin.fleet import cloud
    from nova_prio.admin import gain as cloud_gain
    ratios = _parse_ratios(parsed_args)
    growth = report.get_number(parsed_args, 'growth', 0, 10000,
                               parse=_parse_percent) or 0
    of_cloud = cloud.read_fleet(context, controller.make_placement_client())
    report.warn_of_silent_cells(command.app, of_cloud.silent_cells)
    hosts = of_cloud.list_empty_hosts(names)
    for name in names:
        if name not in hosts:
            report.refuse('HOST', name, 'names of hosts with one compute node')
    try:
        found = cloud_gain.read_kinds(of_cloud, names, parsed_args.low)
    except cloud_gain.UnknownLabel as error:
        report.refuse('--low', error, 'all, the names and IDs of flavors, and '
                      'the IDs of projects, of the servers on the hosts')
    groups = gain.group_hosts(hosts.values())
    left_out = gain.find_misfits(groups, found, ratios)
    kinds = gain.grow([kind for kind in found if kind not in left_out], growth)
    vcpus = gain.count_vcpus(kinds)
    total = sum(vcpus.values())
    share = round(100 * vcpus[capacity.HIGH] / (total or 1))
    answers = _forecast(groups, kinds, share, ratios)
    shares = list(answers)
    if parsed_args.html and all(vcpus.values()):
        shares += _forecast_shares(groups, kinds, total, ratios)
    shares.sort(key=lambda answer: answer[0])
    return _show(command, parsed_args, answers, shares, _describe(
        kinds, left_out, growth, parsed_args.low, len(names)))


def _parse_percent(text):
    """Return the number of a percentage such as ``20%``."""
    return capacity.parse_ratio(text.removesuffix('%'))


def _parse_ratios(parsed_args):
    """Return the ratios to try, a list of Decimal."""
    ratios = []
    for text in parsed_args.ratio or _RATIOS:
        with contextlib.suppress(ValueError):
            ratio = capacity.parse_ratio(text)
            if 0 < ratio <= capacity.MOST_RATIO:
                ratios.append(ratio)
                continue
        report.refuse('--ratio', text, 'numbers above 0, up to %d'
                      % capacity.MOST_RATIO)
    return ratios


def _list_sold(host, ratios):
    """Return the rows of ``SOLD`` for each division of the CPUs.

    Each NUMA cell has as many dedicated CPUs.

    :param host: ``host_fit.HostFit``
    :param ratios: list of Decimal
    """
    rows = []
    cpus = len(host.host.report.cpus.shared)
    for ratio in ratios:
        for dedicated in range(0, cpus + 1, len(host.cells)):
            shared = cpus - dedicated
            without = capacity.calculate_sellable(
                dedicated, shared, ratio, mix=False)
            # nova-compute refuses mix unless both CPU sets are given.
            mixed = capacity.calculate_sellable(
                dedicated, shared, ratio, bool(dedicated and shared))
            rows.append((float(ratio), dedicated, shared, without.low,
                         mixed.low, round((mixed.high + mixed.low) / cpus, 4)))
    return rows


def _forecast(groups, kinds, share, ratios):
    """Return the ``gain.Answer`` without and with mix for each ratio.

    :param share: percent of pinned vCPUs of the servers
    :returns: list of (share, Answer without mix, Answer with mix)
    """
    answers = []
    for ratio in ratios:
        pair = [gain.find_fewest(groups, kinds, gain.Setup(ratio, mix))
                for mix in (False, True)]
        answers.append((share, pair[0], pair[1]))
    return answers


def _forecast_shares(groups, kinds, vcpus, ratios):
    """Return the same as :func:`_forecast` for several shares.

    :param vcpus: number of vCPUs of the servers with a priority
    """
    answers = []
    for share in _SHARES:
        changed = []
        if vcpus:
            changed = gain.change_share(kinds, vcpus, share)
        answers += _forecast(groups, changed, share, ratios)
    return answers


def _show(command, parsed_args, answers, plotted, assumption):
    """Print answers, and write the page; return the exit status.

    :param answers: list, as :func:`_forecast` returns it
    :param plotted: the same for the page
    :param assumption: the sentences at the end
    """
    last_line = '%s %s' % (_summarize(answers), assumption)
    if parsed_args.html:
        from nova_prio.admin.page import gain as gain_page
        from nova_prio.admin.page import render
        page = gain_page.Page(
            title='Hosts with and without mix', lead=[last_line],
            plots=_make_plots(plotted), columns=COLUMNS,
            rows=_make_rows(plotted))
        output_file.write(
            '--html', parsed_args.html, render.render_gain(page))
    command.show(parsed_args, COLUMNS, _make_rows(answers))
    return command.end(report.CLEAN, last_line)


def _make_rows(answers):
    """Return the values of ``COLUMNS`` for each answer, a list."""
    rows = []
    for share, without, mixed in answers:
        for answer in without, mixed:
            dedicated = shared = hosts = least = percent = ''
            if answer.cpus is not None:
                dedicated = len(answer.cpus.dedicated)
                shared = len(answer.cpus.shared)
            if answer.hosts is not None:
                hosts, least = answer.hosts, answer.least
            if answer.hosts and without.hosts:
                percent = round(100 * answer.hosts / without.hosts)
            rows.append((
                share, float(answer.setup.ratio), answer.setup.mix, dedicated,
                shared, hosts, least, answer.limit, percent))
    return rows


def _make_plots(answers):
    """Return a ``gain_page.Plot`` for each ratio, a list."""
    from nova_prio.admin.page import gain as gain_page
    lines = {}
    for share, without, mixed in answers:
        for answer in without, mixed:
            line = lines.setdefault(answer.setup, [])
            if answer.hosts is not None:
                line.append((share, answer.hosts))
    plots = {}
    for setup, points in lines.items():
        name = 'with mix' if setup.mix else 'without mix'
        plots.setdefault(setup.ratio, []).append(
            gain_page.Line(name, points))
    return [gain_page.Plot('Ratio %s' % ratio, of_ratio)
            for ratio, of_ratio in plots.items()]


def _summarize(answers):
    """Return a sentence about the smallest and the largest saving."""
    percents = {}
    for share, without, mixed in answers:
        if without.hosts and mixed.hosts:
            percents[mixed.hosts / without.hosts] = share, without, mixed
    if not percents:
        return 'No host is needed, or the servers fit on none.'
    share, without, mixed = percents[min(percents)]
    text = ('Hosts that are enough with mix: at best %d instead of %d (%d %% '
            'of the vCPUs pinned, ratio %s)' % (
                mixed.hosts, without.hosts, share, mixed.setup.ratio))
    if min(percents) != max(percents):
        share, without, mixed = percents[max(percents)]
        text += ', at worst %d instead of %d (%d %% pinned, ratio %s)' % (
            mixed.hosts, without.hosts, share, mixed.setup.ratio)
    return text + '.'


def _describe(kinds, left_out, growth, low, hosts):
    """Return the sentences about the servers of a cloud.

    :param kinds: list of ``first_fit.Kind``
    :param left_out: those that some ratio or mix cannot place
    :param growth: percent
    :param low: list of the values of --low
    :param hosts: number of hosts
    """
    numbers = dict.fromkeys((*capacity.PRIORITIES, None), 0)
    for kind in kinds:
        numbers[kind.needs.request.priority] += kind.number
    text = (
        'Hosts now: %d. Assumed: %d pinned servers have high priority, '
        '%d servers have low priority (--low %s), and %d others stay ordinary '
        'and gain nothing; growth %s %%.' % (
            hosts, numbers[capacity.HIGH], numbers[capacity.LOW],
            ' '.join(low), numbers[None], growth))
    if left_out:
        text += (' Left out: %d servers that no mix host takes, or that fit '
                 'on no empty host.' % sum(kind.number for kind in left_out))
    return text
