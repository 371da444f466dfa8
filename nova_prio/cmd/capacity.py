# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity show``."""

from osc_lib import exceptions

from nova_prio.admin.page import content
from nova_prio.cmd import capacity_loss
from nova_prio.cmd import colors
from nova_prio.cmd import controller
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.cmd import tables

#: Columns of the sold, sellable and remaining vCPUs of each row. A row is a
#: number of vCPUs that a host may sell (``nova_prio.model.cpu_capacity``). The
#: last two are the CPU time that low-priority guests can get, and their wait
#: (``nova_prio.model.low_supply``).
COLUMNS = ['High Sold', 'High Sellable', 'High Left',
           'Low Sold', 'Low Sellable', 'Low Left',
           'Ordinary Sold', 'Ordinary Sellable', 'Ordinary Left',
           'Low Supply', 'Low Wait Percent']
#: The same for a table, with the three numbers of a row in one column.
TABLE = ['High Sold/Sellable (Left)', 'Low Sold/Sellable (Left)',
         'Ordinary Sold/Sellable (Left)', 'Low Supply (Wait)']


class ShowCapacity(report.Report):
    """List the sold, sellable and remaining vCPUs of hosts.

    The numbers are those of the last report of each nova-compute, for three
    rows: the high row (dedicated vCPUs), the low row (all shared vCPUs) and
    the ordinary row (shared vCPUs of instances without low priority). Hosts
    without a report, because they run another compute driver, are omitted.
    "Low Supply" is the number of CPUs whose time low-priority instances can
    get, as measured, and "Wait" the part of the time that their vCPUs wait for
    a CPU: for an aggregate, that of the host where they wait most.
    With --after-loss, list how many guests of each host fit on the other hosts
    of the aggregate if the host is lost, and what is missing for the others.
    This command reads Nova's databases: run it where nova-manage runs.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host', action='append', metavar='HOST',
            help='list this host (repeat option to list multiple hosts)')
        parser.add_argument(
            '--aggregate', action='append', metavar='NAME',
            help='list the hosts of this aggregate (repeat option to list '
            'multiple aggregates)')
        parser.add_argument(
            '--by-aggregate', action='store_true',
            help='list aggregates, each with the sum of its hosts')
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='also list how many instances of this flavor (name or ID) '
            'fit')
        parser.add_argument(
            '--html', metavar='FILE',
            help='also write a page with the servers on the CPUs of each '
            'host to this file, which a browser shows')
        parser.add_argument(
            '--after-loss', action='store_true',
            help='list whether the guests of each host fit on the other hosts '
            'of the aggregate if the host is lost; the exit status is 3 if '
            'some do not fit (only with --host and --aggregate)')
        return parser

    def act(self, context, parsed_args):
        """List the vCPUs, or with --after-loss the losses of hosts.

        :returns: exit status
        """
        from nova_prio.admin import host_inventory
        if parsed_args.after_loss:
            for option in 'by_aggregate', 'flavor', 'html':
                if getattr(parsed_args, option):
                    raise exceptions.CommandError(
                        '--%s is given with --after-loss; allowed with '
                        '--after-loss are --host and --aggregate.'
                        % option.replace('_', '-'))
        hosts, silent_cells = host_inventory.list_hosts(context)
        request, units, unit_columns = None, None, []
        if parsed_args.flavor:
            flavor = controller.find_flavor(context, parsed_args.flavor)
            # What an instance of the flavor asks for; the page shows it.
            request = host_inventory.get_resource_request(flavor)
            # ``units.Units``: the instances of the flavor that fit on hosts.
            units = find_units(self.app, context, flavor, hints={})
            unit_columns = ['Units']
        report.warn_of_silent_cells(self.app, silent_cells)
        selected = list(_select_hosts(self.app, hosts, parsed_args))
        if parsed_args.after_loss:
            return self._show_losses(context, selected, parsed_args)
        # Name of each line -> its hosts.
        members = {host.name: [host] for host in selected}
        first_columns = ['Host']
        if parsed_args.by_aggregate:
            members = host_inventory.group_by_aggregate(selected)
            first_columns = ['Aggregate', 'Hosts']
        columns = first_columns + COLUMNS + unit_columns
        rows = _make_lines(members, units, parsed_args)
        if parsed_args.html:
            from nova_prio.admin.page import capacity_page
            from nova_prio.admin.page import templates
            page = capacity_page.build(
                context, controller.get_conf(), hosts, silent_cells, selected,
                request, units, parsed_args.flavor,
                data=[dict(zip(columns, row)) for row in rows])
            output_file.write(
                '--html', parsed_args.html, templates.render(page))
        if tables.is_for_reading(parsed_args):
            columns = first_columns + TABLE + unit_columns
            rows = _make_lines(
                members, units, parsed_args, is_for_reading=True)
        self.show(parsed_args, columns, rows)
        return report.CLEAN

    def _show_losses(self, context, hosts, parsed_args):
        """List whether guests fit on the other hosts if a host is lost.

        :param hosts: the hosts to lose, each a ``HostRecord``
        :returns: exit status
        """
        from nova_prio.admin.fleet import cloud_fleet
        from nova_prio.admin.fleet import loss
        from nova_prio.admin import host_inventory
        from nova_prio.admin.moves import verdicts
        # Name of an aggregate -> names of its hosts to lose. All aggregates of
        # the hosts count without --aggregate.
        members = {}
        for name, group in host_inventory.group_by_aggregate(hosts).items():
            if not parsed_args.aggregate or name in parsed_args.aggregate:
                members[name] = [host.name for host in group]
        placement = controller.make_placement_client()
        # The verdicts are those of the code of nova-scheduler: which hosts it
        # refuses for a guest.
        losses = list(loss.list_losses(
            cloud_fleet.read_fleet(context, placement), members,
            verdicts.Verdicts(context, placement)))
        columns, make_row = capacity_loss.COLUMNS, capacity_loss.make_row
        if tables.is_for_reading(parsed_args):
            columns = capacity_loss.TABLE
            make_row = capacity_loss.make_table_row
        self.show(parsed_args, columns, [make_row(each) for each in losses])
        # Each state tells whether all guests of a host fit. If there are both
        # True and False, False decides the exit status.
        states = {each.is_survivable for each in losses}
        status, text = report.find_outcome(states, capacity_loss.OUTCOMES)
        return self.end(status, text)


def find_units(app, context, flavor, hints):
    """Return the instances of a flavor that fit on each host.

    :param hints: dict, the scheduler hints of the instances
    :returns: ``admin.explain.units.Units``
    """
    from nova_prio.admin.explain import judge
    from nova_prio.admin.explain import requests
    from nova_prio.admin.explain import units
    # This asks Placement, and runs Nova's filters.
    scheduler = judge.Judge(context, controller.make_placement_client())
    request = requests.build_request(
        context, controller.get_conf(), flavor, hints, image=None)
    found = units.find(scheduler, request)
    # A doubt is a clause: why nova-scheduler may refuse a host that passes.
    for doubt in scheduler.list_doubts():
        app.LOG.warning('The units may not fit: %s.', doubt)
    return found


def _select_hosts(app, hosts, parsed_args):
    """Yield the hosts with a report that --host and --aggregate select.

    Log a warning for a host whose report cannot be read.

    :param hosts: all hosts, each a ``HostRecord``
    :raises CommandError: if an option has an unknown name
    """
    selected = hosts
    # get_names returns the names by which the option selects a host.
    for option, get_names in (('host', _get_names),
                              ('aggregate', _get_aggregates)):
        wanted = set(getattr(parsed_args, option) or ())
        unknown = set(wanted)
        for host in hosts:
            unknown.difference_update(get_names(host))
        if unknown:
            # This raises CommandError.
            report.refuse('--' + option, min(unknown),
                          'names of %ss with computes' % option)
        if wanted:
            selected = [host for host in selected
                        if wanted.intersection(get_names(host))]
    for host in selected:
        if host.problem:
            app.LOG.warning('Host %s is omitted: %s.', host.name, host.problem)
        # A host with another compute driver has neither a report nor a
        # problem. It has no numbers for the list.
        elif host.report:
            yield host


def _get_names(host):
    """Return the name of a host, a list."""
    return [host.name]


def _get_aggregates(host):
    """Return the names of the aggregates of a host, a list."""
    return [aggregate.name for aggregate in host.aggregates]


def _make_lines(members, units, parsed_args, is_for_reading=False):
    """Return a line of the list for each host or aggregate.

    :param members: dict, name of a host or aggregate -> list of
        ``HostRecord``
    :param units: ``admin.explain.units.Units``, whose ``count`` is how many
        instances of --flavor fit on hosts; None without --flavor
    :param is_for_reading: whether the sold, the sellable and the remaining
        vCPUs are one text, as in ``TABLE``, not three numbers
    :returns: list of lists of values
    """
    from nova_prio.model import low_supply
    lines = []
    for name, hosts in members.items():
        line = [name]
        if parsed_args.by_aggregate:
            line.append(len(hosts))
        # Name of a row, high, low or ordinary, -> the sum of the hosts.
        sums = content.add_up(_make_rows(host) for host in hosts)
        for vcpus in sums.values():
            if is_for_reading:
                line.append(_format_row(vcpus))
            else:
                line += [vcpus.sold, vcpus.sellable, vcpus.left]
        # The CPU time for low-priority guests, and the part of the time that
        # their vCPUs wait for a CPU; None if a host reports none.
        supply = low_supply.add_up([host.report.low_supply for host in hosts])
        if is_for_reading:
            line.append(content.format_low_supply(supply))
        elif supply is None:
            line += [None, None]
        else:
            line += [supply.cpus, supply.wait_percent]
        if units is not None:
            line.append(units.count([host.name for host in hosts]))
        lines.append(line)
    return lines


def _make_rows(host):
    """Return the sold, sellable and remaining vCPUs of a host.

    :returns: dict, name of a row -> ``provider_rows.Row``. The row 'high' has
        the dedicated vCPUs, 'low' all others, and 'ordinary' those of them
        without low priority.
    """
    return content.make_rows(
        host.report.used, host.report.sellable, host.report.left)


def _format_row(row):
    """Return the sold, sellable and remaining vCPUs of a host as a text.

    The text is red if more are sold than the host may sell.

    :param row: ``provider_rows.Row``
    """
    text = '%d/%d (%d)' % (row.sold, row.sellable, row.left)
    return tables.ColoredText(text, colors.RED) if row.is_oversold else text
