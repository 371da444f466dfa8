# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity gain``.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of the host, in the time that pinned vCPUs leave
idle.
"""

import collections

from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio.model import capacity

COLUMNS = ('Host', 'Mix', 'Low Without Mix', 'Low With Mix', 'Gain')
UNITS, NOTE = 'Units', 'Note'


class Gain(report.Report):
    """List the low-priority vCPUs that the hosts of an aggregate gain by mix.

    For each host, compare the sellable low-priority vCPUs with and without
    cpu_priority_mix_enable, for the same CPU sets and allocation ratio. Hosts
    without a report are listed without numbers. This command reads Nova's
    databases: run it where nova-manage runs.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'aggregate', metavar='AGGREGATE', help='name of a host aggregate')
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='also list how many more instances of this flavor (name or '
            'ID) fit; if the flavor has no priority, they use the scheduler '
            'hint priority=low')
        return parser

    def act(self, context, parsed_args):
        """List the gains of the hosts; return the exit status."""
        from nova import objects

        from nova_prio.admin import host_inventory
        aggregates = {aggregate.name: aggregate for aggregate in
                      objects.AggregateList.get_all(context)}
        if parsed_args.aggregate not in aggregates:
            report.refuse('AGGREGATE', parsed_args.aggregate,
                          allowed='names of host aggregates')
        hosts, silent_cells = host_inventory.list_hosts(context)
        vcpus_per_instance = None
        columns = list(COLUMNS)
        if parsed_args.flavor:
            vcpus_per_instance = _get_low_vcpus(context, parsed_args.flavor)
        if vcpus_per_instance:
            columns.append(UNITS)
        columns.append(NOTE)
        hosts_by_name = {host.name: host for host in hosts}
        gains, rows = [], []
        for name in sorted(aggregates[parsed_args.aggregate].hosts):
            gain = _measure(hosts_by_name.get(name), silent_cells,
                            vcpus_per_instance)
            gain['Host'] = name
            gains.append(gain)
            rows.append([gain.get(column, '') for column in columns])
        self.show(parsed_args, columns, rows)
        return self.end(report.CLEAN, _summarize(
            gains, has_flavor=bool(vcpus_per_instance)))


def _get_low_vcpus(context, wanted):
    """Return the vCPUs of a low-priority instance of the wanted flavor."""
    from nova_prio.admin import host_inventory
    from nova_prio.model import flavor_specs
    flavor = controller.find_flavor(context, wanted)
    priority = flavor.extra_specs.get(flavor_specs.EXTRA_SPEC)
    if priority == capacity.HIGH:
        raise exceptions.CommandError(
            "--flavor is '%s', whose %s is '%s'; allowed are flavors with "
            "'low' or none." % (wanted, flavor_specs.EXTRA_SPEC, priority))
    hints = None if priority else {flavor_specs.HINT: capacity.LOW}
    return host_inventory.get_resource_request(flavor, hints).needed_rows.low


def _measure(host, silent_cells, vcpus):
    """Return the gain of one host, a dict, column -> value.

    UNITS are the instances of --flavor that the host gains. A host without a
    report has only a NOTE.

    :param host: ``host_inventory.HostRecord``, None if it is unknown
    :param silent_cells: UUIDs of the cells that do not answer
    :param vcpus: vCPUs of an instance of --flavor, or None
    """
    if host is None or not host.report:
        return {NOTE: _explain_missing_report(host, silent_cells)}
    without, mixed = host.cpus_by_mix
    gain = {
        'Mix': host.report.mix, 'Low Without Mix': without.sellable.low,
        'Low With Mix': mixed.sellable.low,
        'Gain': mixed.sellable.low - without.sellable.low}
    if vcpus:
        gain[UNITS] = (_count_instances(mixed, vcpus) -
                       _count_instances(without, vcpus))
    return gain


def _count_instances(cpus, vcpus):
    """Return how many low-priority instances an empty host can run."""
    return cpus.sellable.low // vcpus if vcpus <= len(cpus.floating) else 0


def _explain_missing_report(host, silent_cells):
    """Return why a host has no report."""
    if host is not None:
        return host.problem or 'the host runs another compute driver'
    if silent_cells:
        return ('the host is unknown, or in a cell that does not answer: %s'
                % ', '.join(silent_cells))
    return 'the host has no nova-compute'


def _summarize(gains, has_flavor):
    """Return the gain of all hosts, and the next step, as sentences."""
    # The key is None for hosts without a report.
    by_mix = collections.defaultdict(list)
    for gain in gains:
        by_mix[gain.get('Mix')].append(gain)
    if by_mix[None]:
        next_step = 'Check %s without a report: see the column "Note".' % (
            report.format_count(len(by_mix[None]), 'host'))
    elif any(gain['Gain'] for gain in by_mix[False]):
        next_step = ('Set cpu_priority_mix_enable = true on the hosts without '
                     'mix to gain another %s.'
                     % _format_gain(by_mix[False], has_flavor))
    else:
        next_step = ('Other CPU sets or another ratio may give more: see '
                     '"nova-prio capacity solve".')
    return 'Gained: %s. %s' % (
        _format_gain(by_mix[True], has_flavor), next_step)


def _format_gain(gains, has_flavor):
    """Return the sum of the gains of some hosts as a text."""
    text = report.format_count(
        sum(gain['Gain'] for gain in gains), 'low-priority vCPU')
    if has_flavor:
        text += ' (%s of the flavor)' % report.format_count(
            sum(gain[UNITS] for gain in gains), 'instance')
    return '%s on %s' % (text, report.format_count(len(gains), 'host'))
