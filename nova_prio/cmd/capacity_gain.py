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
    """List the low-priority vCPUs that an aggregate gains by mix.

    For each host, what its low row sells with cpu_priority_mix_enable is
    compared with what the same CPU sets and ratio sell without it; where it is
    off, with what it would sell. Hosts that report nothing are listed without
    numbers. It reads Nova's databases: run it where nova-manage runs.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'aggregate', metavar='AGGREGATE', help='name of a host aggregate')
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='list how many more instances of this flavor (name or ID) '
            'the CPUs sell, too; where it names no priority, with the '
            'scheduler hint for a low one')
        return parser

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova import objects

        from nova_prio.admin import host_inventory
        aggregates = {each.name: each for each in
                      objects.AggregateList.get_all(self.context)}
        if parsed_args.aggregate not in aggregates:
            raise exceptions.CommandError(
                "AGGREGATE is '%s'; allowed are names of host aggregates."
                % parsed_args.aggregate)
        names = aggregates[parsed_args.aggregate].hosts
        hosts, silent = host_inventory.list_hosts(self.context)
        vcpus = _vcpus_of(self.context, parsed_args.flavor)
        known = {host.name: host for host in hosts}
        rows = [_row(name, known.get(name), silent, vcpus)
                for name in sorted(names)]
        self.said = _summary(rows, vcpus)
        columns = [*COLUMNS, *([UNITS] if vcpus else []), NOTE]
        return columns, [[row[column] for column in columns] for row in rows]


def _vcpus_of(context, wanted):
    """Return the vCPUs of a flavor with low priority, or None without one."""
    if wanted is None:
        return None
    from nova_prio.admin import host_inventory
    from nova_prio.model import flavor_specs
    flavor = controller.find_flavor(context, wanted)
    named = flavor.extra_specs.get(flavor_specs.EXTRA_SPEC)
    if named == capacity.HIGH:
        raise exceptions.CommandError(
            "--flavor is '%s', whose %s is '%s'; allowed is 'low' or none."
            % (wanted, flavor_specs.EXTRA_SPEC, named))
    return host_inventory.get_resource_request(flavor, None if named else {
        flavor_specs.HINT: capacity.LOW}).drawn.low


def _row(name, host, silent, vcpus):
    """Return dict, column -> value, of one host."""
    row = dict.fromkeys((*COLUMNS, UNITS, NOTE), '')
    row['Host'] = name
    if host is None or not host.report:
        row[NOTE] = _reason(host, silent)
        return row
    without, mixed = host.low_rows
    row.update(zip(COLUMNS[1:], [
        host.report.mix, without.sellable, mixed.sellable,
        mixed.sellable - without.sellable], strict=True))
    if vcpus:
        row[UNITS] = mixed.units(vcpus) - without.units(vcpus)
    return row


def _reason(host, silent):
    """Return why a host reports nothing."""
    if host is not None:
        return host.problem or 'it runs another compute driver'
    if silent:
        return ('it is unknown, or in one of the cells that do not answer: %s'
                % ', '.join(silent))
    return 'it has no nova-compute'


def _summary(rows, vcpus):
    """Return what is gained, and what to do next, as sentences."""
    sums, units, hosts = (collections.Counter() for _ in range(3))
    for row in rows:
        hosts[row['Mix']] += 1
        sums[row['Mix']] += row['Gain'] or 0
        units[row['Mix']] += row[UNITS] or 0

    def amount(mix):
        text = _counted(sums[mix], 'low-priority vCPU')
        if vcpus:
            text += ' (%s of the flavor)' % _counted(units[mix], 'instance')
        return '%s on %s' % (text, _counted(hosts[mix], 'host'))

    if hosts['']:
        next_step = ('See to %s without a report: the column "Note" says why.'
                     % _counted(hosts[''], 'host'))
    elif sums[False]:
        next_step = ('Set cpu_priority_mix_enable = true on those without '
                     'mix, for another %s.' % amount(False))
    else:
        next_step = ('Other sets or another ratio may give more: "nova-prio '
                     'capacity solve" tells.')
    return 'Gained: %s. %s' % (amount(True), next_step)


def _counted(number, noun):
    return '%d %s%s' % (number, noun, '' if number == 1 else 's')
