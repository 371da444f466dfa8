# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity gain``."""

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
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'aggregate', metavar='AGGREGATE', help='name of a host aggregate')
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='also list how many more instances of this flavor (name or '
            'ID) fit; if the flavor has no priority, they use the scheduler '
            'hint priority=low')
        return parser

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova import objects

        from nova_prio.admin import host_inventory
        aggregates = {each.name: each for each in
                      objects.AggregateList.get_all(self.context)}
        if parsed_args.aggregate not in aggregates:
            report.refuse('AGGREGATE', parsed_args.aggregate,
                          'names of host aggregates')
        hosts, silent_cells = host_inventory.list_hosts(self.context)
        vcpus = parsed_args.flavor and _get_low_vcpus(
            self.context, parsed_args.flavor)
        hosts_by_name = {host.name: host for host in hosts}
        rows = [_make_row(name, hosts_by_name.get(name), silent_cells, vcpus)
                for name in sorted(aggregates[parsed_args.aggregate].hosts)]
        self.last_line = _summarize(rows, vcpus)
        columns = [*COLUMNS, *([UNITS] if vcpus else []), NOTE]
        return columns, [[row[column] for column in columns] for row in rows]


def _get_low_vcpus(context, wanted):
    """Return the vCPUs of an instance of a flavor with low priority."""
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


def _make_row(name, host, silent_cells, vcpus):
    """Return dict, column -> value, of one host."""
    row = {**dict.fromkeys((*COLUMNS, UNITS, NOTE), ''), 'Host': name}
    if host is None or not host.report:
        row[NOTE] = _explain_missing_report(host, silent_cells)
        return row
    without, mixed = host.cpus_by_mix
    row.update({
        'Mix': host.report.mix, 'Low Without Mix': without.sellable.low,
        'Low With Mix': mixed.sellable.low,
        'Gain': mixed.sellable.low - without.sellable.low})
    if vcpus:
        row[UNITS] = (_count_instances(mixed, vcpus) -
                      _count_instances(without, vcpus))
    return row


def _count_instances(cpus, vcpus):
    """Return how many low-priority instances an empty host can run."""
    return cpus.sellable.low // vcpus if vcpus <= len(cpus.floating) else 0


def _explain_missing_report(host, silent_cells):
    if host is not None:
        return host.problem or 'the host runs another compute driver'
    if silent_cells:
        return ('the host is unknown, or in a cell that does not answer: %s'
                % ', '.join(silent_cells))
    return 'the host has no nova-compute'


def _summarize(rows, vcpus):
    """Return the gain of all hosts, and the next step, as sentences."""
    sums = collections.defaultdict(collections.Counter)
    for row in rows:
        sums[row['Mix']].update({
            'hosts': 1, 'vcpus': row['Gain'] or 0, 'units': row[UNITS] or 0})

    def format_gain(has_mix):
        text = _format_count(sums[has_mix]['vcpus'], 'low-priority vCPU')
        if vcpus:
            text += ' (%s of the flavor)' % _format_count(
                sums[has_mix]['units'], 'instance')
        return '%s on %s' % (
            text, _format_count(sums[has_mix]['hosts'], 'host'))

    gained = format_gain(True)
    if sums['']['hosts']:
        next_step = 'Check %s without a report: see the column "Note".' % (
            _format_count(sums['']['hosts'], 'host'))
    elif sums[False]['vcpus']:
        next_step = ('Set cpu_priority_mix_enable = true on the hosts without '
                     'mix to gain another %s.' % format_gain(False))
    else:
        next_step = ('Other CPU sets or another ratio may give more: see '
                     '"nova-prio capacity solve".')
    return 'Gained: %s. %s' % (gained, next_step)


def _format_count(number, noun):
    return '%d %s%s' % (number, noun, '' if number == 1 else 's')
