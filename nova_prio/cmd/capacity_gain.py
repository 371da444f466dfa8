# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity gain``.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of the host, in the time that pinned vCPUs leave
idle.
"""

import collections

from osc_lib import exceptions

from nova_prio.cmd import capacity as capacity_show
from nova_prio.cmd import controller
from nova_prio.cmd import gain_forecast
from nova_prio.cmd import host_selection
from nova_prio.cmd import report
from nova_prio.model import cpu_capacity

COLUMNS = ('Host', 'Mix', 'Low Without Mix', 'Low With Mix', 'Gain')
#: Columns of --flavor: servers that fit now, and on the host without servers.
NOW, EMPTY, EMPTY_MIX, LIMIT = UNITS = (
    'Fit Now', 'Empty Without Mix', 'Empty With Mix', 'Limit')
NOTE = 'Note'
#: Options -> the option, beside names of hosts, without which they have no
#: effect; the first that is given counts.
_NEEDS = {
    '--low': ('--what-if',), '--growth': ('--what-if',),
    '--demand': ('--host',), '--ratio': ('--host', '--what-if'),
    '--html': ('--demand', '--what-if')}


class ShowGain(report.Report):
    """List what hosts gain by mix, or how many hosts mix would save.

    For each host, compare the sellable low-priority vCPUs with and without
    cpu_priority_mix_enable, for the same CPU sets and allocation ratio. Hosts
    without a report are listed without numbers. With --what-if, take the
    servers that these hosts have, and list how many of the hosts would be
    enough. With --host, do the same for a host that does not exist yet and the
    servers of a file, or list what it sells. Without --host, this command
    reads Nova's databases: run it where nova-manage runs.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line.

        --flavor assumes low priority for a flavor without one, because mix
        gains nothing for other servers.
        """
        parser = super().get_parser(prog_name)
        host_selection.add_host_options(parser)
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='also list how many servers of this flavor (name or ID) fit '
            'now, and how many would fit if the host were empty; if the '
            'flavor has no priority, they use the scheduler hint priority=low')
        gain_forecast.add_options(parser)
        return parser

    def take_action(self, parsed_args):
        """List the gain; return the exit status."""
        _check_options(parsed_args)
        if parsed_args.host:
            return gain_forecast.show_host(self, parsed_args)
        return super().take_action(parsed_args)

    def act(self, context, parsed_args):
        """List the vCPUs that hosts gain by mix; return the exit status.

        Mix lets low-priority instances run on the dedicated CPUs of a host
        too.
        """
        from nova_prio.admin import host_inventory
        listed = host_inventory.list_hosts(context)
        hosts, silent_cells = listed
        names = host_selection.select_hosts(
            self.app, context, parsed_args, listed)
        if parsed_args.what_if:
            return gain_forecast.show_cloud(
                self, context, parsed_args, names, listed)
        hosts_by_name = {host.name: host for host in hosts}
        columns, units = list(COLUMNS), {}
        if parsed_args.flavor:
            columns += UNITS
            measurable = [hosts_by_name[name] for name in names
                          if name in hosts_by_name
                          and hosts_by_name[name].report]
            units = self._count_units(
                context, parsed_args, measurable, listed)
        columns.append(NOTE)
        # The lines of the list, each a dict, column -> value.
        lines, rows = [], []
        for name in sorted(names):
            # None if no host of this name is known, for example because its
            # cell does not answer.
            host = hosts_by_name.get(name)
            line = _measure_gain(host, silent_cells)
            # With --flavor, add the values of the columns UNITS.
            line.update(units.get(name, {}))
            line['Host'] = name
            lines.append(line)
            rows.append([line.get(column, '') for column in columns])
        self.show(parsed_args, columns, rows)
        return self.end(report.CLEAN, _summarize(
            lines, has_flavor=bool(parsed_args.flavor)))

    def _count_units(self, context, parsed_args, hosts, listed):
        """Return how many instances of --flavor fit on hosts.

        The numbers are those of the columns ``UNITS`` of the list.

        These are the instances that fit beside those of the host, and on the
        host without instances: without and with mix, which lets low-priority
        instances run on dedicated CPUs too.

        :param hosts: list of ``HostRecord`` with a report
        :param listed: result of ``host_inventory.list_hosts``
        :returns: dict, name of a host -> (dict, column -> value)
        """
        from nova_prio.admin import cloud_gain
        from nova_prio.admin.fleet import cloud_fleet
        flavor = controller.find_flavor(context, parsed_args.flavor)
        # The instances have low priority. If the flavor does not say so, the
        # scheduler hint of a request does.
        hints = _get_hints(flavor, parsed_args.flavor)
        needs = cloud_gain.make_flavor_needs(flavor, hints)
        now = capacity_show.find_units(self.app, context, flavor, hints)
        fleet = cloud_fleet.read_fleet(
            context, controller.make_placement_client(), listed)
        measured = cloud_gain.measure_empty(fleet, hosts, needs)
        units = {}
        for name, numbers in measured.items():
            # ``now.count`` is how many fit beside the present instances.
            # ``limit`` is the resource of which the host, with mix, has none
            # left first.
            units[name] = {
                NOW: now.count([name]), EMPTY: numbers.without_mix,
                EMPTY_MIX: numbers.with_mix, LIMIT: numbers.limit}
        return units


def _check_options(parsed_args):
    """Raise CommandError for options that do not belong together."""
    # ``needed`` are the options of which one must be given with the option.
    for option, needed in _NEEDS.items():
        if _get_value(parsed_args, option) and not any(
                _get_value(parsed_args, each) for each in needed):
            raise exceptions.CommandError('%s is given without %s.' % (
                option, ' or '.join(needed)))
    if parsed_args.what_if and not parsed_args.low:
        raise exceptions.CommandError(
            '--what-if is given without --low; name the flavors or projects '
            'whose servers would have low priority, or give --low all.')
    if parsed_args.host:
        others = [_get_value(parsed_args, option) for option in (
            '--flavor', '--what-if', '--all', '--aggregate')]
        if parsed_args.hosts or any(others):
            raise exceptions.CommandError(
                '--host describes one host that does not exist; allowed '
                'with it are --demand, --ratio and --html.')
    if parsed_args.what_if and parsed_args.flavor:
        raise exceptions.CommandError(
            '--flavor is given with --what-if; give one of them.')


def _get_value(parsed_args, option):
    """Return the value of an option, such as ``--what-if``."""
    return getattr(parsed_args, option[2:].replace('-', '_'))


def _get_hints(flavor, name):
    """Return the scheduler hints of a low-priority server, a dict.

    If the flavor itself gives its servers low priority, they need no hint.

    :param name: name or ID of the flavor, as the operator gave it
    :raises CommandError: if the flavor gives its servers high priority
    """
    from nova_prio.model import flavor_specs
    priority = flavor.extra_specs.get(flavor_specs.EXTRA_SPEC)
    if priority == cpu_capacity.HIGH:
        raise exceptions.CommandError(
            "--flavor is '%s', whose %s is '%s'; allowed are flavors with "
            "'low' or none." % (
                name, flavor_specs.EXTRA_SPEC, priority))
    return {} if priority else {flavor_specs.HINT: cpu_capacity.LOW}


def _measure_gain(host, silent_cells):
    """Return the low-priority vCPUs that one host gains by mix.

    Mix lets low-priority instances run on the dedicated CPUs of a host too.

    :param host: ``host_inventory.HostRecord``, None if it is unknown
    :param silent_cells: UUIDs of the cells that do not answer
    :returns: dict, column -> value; only NOTE if the host has no report
    """
    if host is None or not host.report:
        return {NOTE: _explain_missing_report(host, silent_cells)}
    # Each of them is a ``cpu_capacity.HostCPUs``: the CPUs of the host without
    # and with mix.
    without, mixed = host.cpus_by_mix
    return {
        'Mix': host.report.mix, 'Low Without Mix': without.sellable.low,
        'Low With Mix': mixed.sellable.low,
        'Gain': mixed.sellable.low - without.sellable.low}


def _explain_missing_report(host, silent_cells):
    """Return why a host has no report, a clause.

    In the report, a nova-compute with the driver of this package writes its
    CPU sets, its ratio and the vCPUs that it may sell.

    :param host: ``host_inventory.HostRecord``, None if it is unknown
    :param silent_cells: UUIDs of the cells that do not answer
    """
    if host is not None:
        return host.problem or 'the host runs another compute driver'
    if silent_cells:
        return ('the host is unknown, or in a cell that does not answer: %s'
                % ', '.join(silent_cells))
    return 'the host has no nova-compute'


def _summarize(lines, has_flavor):
    """Return the gain of all hosts by mix, and the next step, as sentences.

    Mix is the option ``cpu_priority_mix_enable``. The gain is how many more
    low-priority vCPUs hosts may sell with it than without it. Hosts with mix
    have this gain now, and hosts without mix would have it.

    :param lines: list with a dict for each host, column -> value
    :param has_flavor: whether --flavor is given: then the lines have the
        columns ``UNITS``, how many instances of the flavor fit
    """
    # Whether mix is enabled -> lines; None for the hosts without a report.
    by_mix = collections.defaultdict(list)
    for line in lines:
        by_mix[line.get('Mix')].append(line)
    if by_mix[None]:
        next_step = 'Check %s without a report: see the column "Note".' % (
            report.format_count(len(by_mix[None]), 'host'))
    elif any(line['Gain'] for line in by_mix[False]):
        next_step = ('Set cpu_priority_mix_enable = true on the hosts without '
                     'mix to gain another %s.'
                     % _format_gain(by_mix[False], has_flavor))
    else:
        next_step = ('Other CPU sets or another ratio may give more: see '
                     'the option --what-if.')
    return 'Gained: %s. %s' % (
        _format_gain(by_mix[True], has_flavor), next_step)


def _format_gain(lines, has_flavor):
    """Return the sum of the gains of some hosts as a text.

    The gain is how many more low-priority vCPUs a host may sell with mix, the
    option ``cpu_priority_mix_enable``, than without it.

    :param lines: list with a dict for each host, column -> value
    :param has_flavor: whether --flavor is given: then the lines have the
        columns ``UNITS``, how many instances of the flavor fit
    """
    vcpus = sum(line['Gain'] for line in lines)
    text = report.format_count(vcpus, 'low-priority vCPU')
    if has_flavor:
        gained = 0
        for line in lines:
            # The columns EMPTY_MIX and EMPTY are the instances of the flavor
            # that fit on the empty host with and without mix. A host with
            # several compute nodes has no such numbers.
            gained += line.get(EMPTY_MIX, 0) - line.get(EMPTY, 0)
        text += ' (%s of the flavor)' % report.format_count(gained, 'instance')
    return '%s on %s' % (text, report.format_count(len(lines), 'host'))
