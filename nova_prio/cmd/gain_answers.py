# SPDX-License-Identifier: Apache-2.0

"""The list, the plots and the last line of ``capacity gain``.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of the host.
"""

import typing

from nova_prio.model.planner import gain

COLUMNS = ('Pinned %', 'Ratio', 'Mix', 'Dedicated', 'Shared', 'Hosts',
           'At Least', 'Limit', 'Hosts %')


class Comparison(typing.NamedTuple):
    """The hosts that are enough for some servers, without and with mix.

    Both answers are for the same servers and the same allocation ratio.
    ``pinned_percent`` is the part of the vCPUs of the servers that is pinned.
    """

    pinned_percent: int
    without: gain.Forecast
    mixed: gain.Forecast


def make_rows(comparisons):
    """Return two lines of the list for each comparison: without and with mix.

    Mix is the option ``cpu_priority_mix_enable``.

    :param comparisons: list of ``Comparison``
    :returns: list of tuples with the values of ``COLUMNS``
    """
    rows = []
    for comparison in comparisons:
        hosts_without = comparison.without.hosts
        for answer in comparison.without, comparison.mixed:
            # A number that the answer does not have is an empty text.
            dedicated = shared = hosts = at_least = percent = ''
            # None if no division of the CPUs suits all servers, or if the
            # pinned servers have hosts of their own.
            if answer.cpus is not None:
                dedicated = len(answer.cpus.dedicated)
                shared = len(answer.cpus.shared)
            # ``hosts`` is None if the servers do not all fit.
            if answer.hosts is not None:
                hosts = answer.hosts
                # The lower bound: no arrangement of the servers needs fewer.
                at_least = answer.least
            if answer.hosts and hosts_without:
                percent = round(100 * answer.hosts / hosts_without)
            # ``limit`` is the resource of which the hosts have least to spare.
            rows.append((
                comparison.pinned_percent, float(answer.setup.ratio),
                answer.setup.mix, dedicated, shared, hosts, at_least,
                answer.limit, percent))
    return rows


def make_plots(comparisons):
    """Return a plot for each allocation ratio.

    A plot has a line without mix and a line with mix: the number of hosts that
    are enough for each percentage of pinned vCPUs.

    :param comparisons: list of ``Comparison``, sorted by the percentage
    :returns: list of ``gain_page.Plot``
    """
    from nova_prio.admin.page import gain_page
    # gain.Setup, which is a ratio without or with mix -> points of the line
    points_of_setups = {}
    for comparison in comparisons:
        for answer in comparison.without, comparison.mixed:
            points = points_of_setups.setdefault(answer.setup, [])
            if answer.hosts is not None:
                points.append((comparison.pinned_percent, answer.hosts))
    lines_of_ratios = {}
    for setup, points in points_of_setups.items():
        name = 'with mix' if setup.mix else 'without mix'
        lines_of_ratios.setdefault(setup.ratio, []).append(
            gain_page.Line(name, points))
    return [gain_page.Plot('Ratio %s' % ratio, lines)
            for ratio, lines in lines_of_ratios.items()]


def summarize(comparisons):
    """Return a sentence about the largest and the smallest saving of mix.

    Mix is the option ``cpu_priority_mix_enable``. Its saving is how many fewer
    hosts are enough with it.

    :param comparisons: list of ``Comparison``
    """
    # Hosts with mix / hosts without mix -> Comparison
    by_fraction = {}
    for each in comparisons:
        # ``hosts`` is None if no division of the CPUs into dedicated and
        # shared ones suits all servers, and 0 if there are no servers.
        if each.without.hosts and each.mixed.hosts:
            by_fraction[each.mixed.hosts / each.without.hosts] = each
    if not by_fraction:
        for each in comparisons:
            # Servers that fit on no host, or None.
            misfit = each.without.misfit or each.mixed.misfit
            if misfit is None:
                continue
            case = ''
            if each.without.misfit is None:
                case = ' with mix'
            elif each.mixed.misfit is None:
                case = ' without mix'
            return ('No division of the CPUs suits all servers%s: with the '
                    'best one, %s fits on no host.'
                    % (case, format_server(misfit)))
        return 'No host is needed.'
    best = by_fraction[min(by_fraction)]
    worst = by_fraction[max(by_fraction)]
    text = ('Hosts that are enough with mix: at best %d instead of %d (%d %% '
            'of the vCPUs pinned, ratio %s)' % (
                best.mixed.hosts, best.without.hosts, best.pinned_percent,
                best.mixed.setup.ratio))
    if worst is not best:
        text += ', at worst %d instead of %d (%d %% pinned, ratio %s)' % (
            worst.mixed.hosts, worst.without.hosts, worst.pinned_percent,
            worst.mixed.setup.ratio)
    return text + '.'


def format_server(kind):
    """Return the size of a server as a noun phrase.

    :param kind: ``first_fit.Kind``
    """
    request = kind.needs.request
    return 'a server of %s priority, %d vCPUs, %d MB and %d GB of disk' % (
        request.priority or 'no', request.vcpus, request.memory_mb,
        kind.needs.disk_gb)
