# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity gain``."""

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
        if parsed_args.flavor:
            vcpus_per_instance = _get_low_vcpus(context, parsed_args.flavor)
        hosts_by_name = {host.name: host for host in hosts}
        rows = [_make_row(name, hosts_by_name.get(name), silent_cells,
                          vcpus_per_instance)
                for name in sorted(aggregates[parsed_args.aggregate].hosts)]
        columns = [*COLUMNS, UNITS, NOTE]
        if not vcpus_per_instance:
            columns.remove(UNITS)
        self.show(parsed_args, columns, [
            [row[column] for column in columns] for row in rows])
        return self.end(report.CLEAN, _summarize(
            rows, has_flavor=bool(vcpus_per_instance)))


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


def _make_row(name, host, silent_cells, vcpus):
    """Return the row of one host, a dict, column -> value.

    UNITS are the instances of --flavor that the host gains.

    :param host: ``host_inventory.HostRecord``, None if it is unknown
    :param vcpus: vCPUs of an instance of --flavor, or None
    """
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
    """Return why a host has no report."""
    if host is not None:
        return host.problem or 'the host runs another compute driver'
    if silent_cells:
        return ('the host is unknown, or in a cell that does not answer: %s'
                % ', '.join(silent_cells))
    return 'the host has no nova-compute'


def _summarize(rows, has_flavor):
    """Return the gain of all hosts, and the next step, as sentences."""
    # Without a report, the value is empty.
    with_mix, without_mix, without_report = (
        [row for row in rows if row['Mix'] == value]
        for value in (True, False, ''))
    if without_report:
        next_step = 'Check %s without a report: see the column "Note".' % (
            _format_count(len(without_report), 'host'))
    elif any(row['Gain'] for row in without_mix):
        next_step = ('Set cpu_priority_mix_enable = true on the hosts without '
                     'mix to gain another %s.'
                     % _format_gain(without_mix, has_flavor))
    else:
        next_step = ('Other CPU sets or another ratio may give more: see '
                     '"nova-prio capacity solve".')
    return 'Gained: %s. %s' % (_format_gain(with_mix, has_flavor), next_step)


def _format_gain(rows, has_flavor):
    """Return the sum of the gains of some hosts as a text."""
    text = _format_count(sum(row['Gain'] for row in rows), 'low-priority vCPU')
    if has_flavor:
        text += ' (%s of the flavor)' % _format_count(
            sum(row[UNITS] for row in rows), 'instance')
    return '%s on %s' % (text, _format_count(len(rows), 'host'))


def _format_count(number, noun):
    """Return a number with its noun, in the plural if necessary."""
    return '%d %s%s' % (number, noun, '' if number == 1 else 's')
