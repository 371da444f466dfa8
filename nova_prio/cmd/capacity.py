# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio capacity show`` and ``... solve``."""

import collections

from cliff import show
from osc_lib import exceptions

from nova_prio.cmd import capacity_loss
from nova_prio.cmd import colors
from nova_prio.cmd import controller
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.cmd import tables
from nova_prio.model import capacity
from nova_prio.model import sizing

AMOUNTS = ('Sold', 'Sellable', 'Left')
#: Columns of the amounts: High Sold, High Sellable and so on.
COLUMNS = ['%s %s' % (row.title(), amount) for row in capacity.Rows._fields
           for amount in AMOUNTS]
#: Columns of a table, with the amounts of a row in one column.
ROWS = ['%s Sold/Sellable (Left)' % row.title()
        for row in capacity.Rows._fields]


class Show(report.Report):
    """List the sold, sellable and remaining vCPUs of hosts.

    The numbers are those of the last report of each nova-compute, for three
    rows: the high row (dedicated vCPUs), the low row (all shared vCPUs) and
    the ordinary row (shared vCPUs of instances without low priority). Hosts
    without a report, because they run another compute driver, are omitted.
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
        """List the vCPUs, or the losses; return the exit status."""
        from nova_prio.admin import host_inventory
        if parsed_args.after_loss:
            for option in 'by_aggregate', 'flavor', 'html':
                if getattr(parsed_args, option):
                    raise exceptions.CommandError(
                        '--%s is given with --after-loss; allowed with '
                        '--after-loss are --host and --aggregate.'
                        % option.replace('_', '-'))
        hosts, silent_cells = host_inventory.list_hosts(context)
        request, units, unit_columns = None, {}, []
        if parsed_args.flavor:
            flavor = controller.find_flavor(context, parsed_args.flavor)
            request = host_inventory.get_resource_request(flavor)
            units = _count_units(self.app, context, flavor)
            unit_columns = ['Units']
        report.warn_of_silent_cells(self.app, silent_cells)
        selected = list(_select_hosts(self.app, hosts, parsed_args))
        if parsed_args.after_loss:
            return self._show_losses(context, selected, parsed_args)
        sums = _sum_up(selected, units, parsed_args.by_aggregate)
        names = ['Host']
        if parsed_args.by_aggregate:
            names = ['Aggregate', 'Hosts']
        columns = [*names, *COLUMNS, *unit_columns]
        if parsed_args.html:
            from nova_prio.admin.page import capacity as capacity_page
            from nova_prio.admin.page import render
            output_file.write('--html', parsed_args.html, render.render(
                capacity_page.build(
                    context, controller.get_conf(), hosts, silent_cells,
                    selected, request, units, parsed_args.flavor,
                    [dict(zip(columns, row))
                     for row in _make_rows(columns, sums)])))
        if tables.is_for_reading(parsed_args):
            columns = [*names, *ROWS, *unit_columns]
        self.show(parsed_args, columns, _make_rows(columns, sums))
        return report.CLEAN

    def _show_losses(self, context, hosts, parsed_args):
        """List the losses of hosts; return the exit status.

        :param hosts: the hosts to lose, each a ``HostRecord``
        """
        from nova_prio.admin.fleet import cloud
        from nova_prio.admin.fleet import loss
        from nova_prio.admin.moves import verdicts
        members = collections.defaultdict(list)
        for host in hosts:
            for name in _get_aggregates(host):
                if name in (parsed_args.aggregate or [name]):
                    members[name].append(host.name)
        placement = controller.make_placement_client()
        losses = list(loss.list_losses(
            cloud.read_fleet(context, placement),
            dict(sorted(members.items())),
            verdicts.Verdicts(context, placement)))
        columns, make_row = capacity_loss.COLUMNS, capacity_loss.make_row
        if tables.is_for_reading(parsed_args):
            columns = capacity_loss.TABLE
            make_row = capacity_loss.make_table_row
        self.show(parsed_args, columns, [make_row(each) for each in losses])
        return self.end(*report.find_outcome(
            {each.is_survivable for each in losses}, capacity_loss.OUTCOMES))


def _count_units(app, context, flavor):
    """Return how many instances of a flavor fit, dict, host -> number."""
    from nova_prio.admin.explain import judge
    from nova_prio.admin.explain import requests
    from nova_prio.admin.explain import units
    of_cloud = judge.Judge(context, controller.make_placement_client())
    found = units.count(of_cloud, requests.build_request(
        context, controller.get_conf(), flavor, {}, None))
    for doubt in of_cloud.list_doubts():
        app.LOG.warning('The units may not fit: %s.', doubt)
    return found


def _select_hosts(app, hosts, parsed_args):
    """Yield the hosts with a report that --host and --aggregate select."""
    selected = hosts
    for option, get_names in (('host', lambda host: [host.name]),
                              ('aggregate', _get_aggregates)):
        wanted = set(getattr(parsed_args, option) or ())
        unknown = wanted.difference(*map(get_names, hosts))
        if unknown:
            report.refuse('--' + option, min(unknown),
                          'names of %ss with computes' % option)
        if wanted:
            selected = [host for host in selected
                        if wanted.intersection(get_names(host))]
    for host in selected:
        if host.problem:
            app.LOG.warning('Host %s is omitted: %s.', host.name, host.problem)
        elif host.report:
            yield host


def _get_aggregates(host):
    """Return the names of the aggregates of a host, a list."""
    return [aggregate.name for aggregate in host.aggregates]


def _sum_up(hosts, units, by_aggregate):
    """Return the sums of each host, or of each aggregate.

    :param hosts: list of ``HostRecord``
    :param units: dict, name of a host -> number of instances
    :returns: dict, name -> column -> number
    """
    sums = collections.defaultdict(collections.Counter)
    for host in hosts:
        numbers = {'Hosts': 1, 'Units': units.get(host.name, 0)}
        for row in capacity.Rows._fields:
            for amount, rows in (('Sold', host.report.used),
                                 ('Sellable', host.report.sellable),
                                 ('Left', host.report.left)):
                numbers['%s %s' % (row.title(), amount)] = getattr(rows, row)
        for name in _get_aggregates(host) if by_aggregate else [host.name]:
            sums[name].update(numbers)
    return sums


def _make_rows(columns, sums):
    """Return the rows of some columns, sorted by name.

    :param columns: names of columns, the first one that of the name
    :param sums: what :func:`_sum_up` returns
    """
    return [[name, *(_get_value(column, numbers) for column in columns[1:])]
            for name, numbers in sorted(sums.items())]


def _get_value(column, numbers):
    """Return the value of a column.

    :param column: one of ``ROWS``, or a key of ``numbers``
    :param numbers: dict, column -> number
    """
    if column not in ROWS:
        return numbers[column]
    row = column.split()[0]
    sold, sellable, left = (
        numbers['%s %s' % (row, amount)] for amount in AMOUNTS)
    text = '%d/%d (%d)' % (sold, sellable, left)
    return tables.ColoredText(text, colors.RED) if sold > sellable else text


class Solve(show.ShowOne):
    """Show the vCPUs that a host sells, or the size of host to sell a number.

    Give the numbers of dedicated and shared CPUs and the allocation ratio, and
    this command shows the sellable vCPUs. Give two of the three and a wanted
    number, and it finds the third that sells the wanted number and as little
    more as possible.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        for name in ('dedicated', 'shared'):
            parser.add_argument(
                '--' + name, type=int, metavar='CPUS',
                help='number of CPUs in [compute] cpu_%s_set' % name)
        parser.add_argument(
            '--ratio', metavar='RATIO', help='CPU allocation ratio')
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument(
            '--low-vcpus', type=int, metavar='VCPUS',
            help='wanted number of low-priority vCPUs while the high row is '
            'sold out')
        wanted.add_argument(
            '--overall-ratio', metavar='RATIO',
            help='wanted number of vCPUs of all instances for each CPU of the '
            'host')
        parser.add_argument(
            '--no-mix', dest='mix', action='store_false',
            help='calculate without cpu_priority_mix_enable: low-priority '
            'instances float on the shared CPUs only')
        return parser

    def take_action(self, parsed_args):
        """Return the names and the values to show."""
        def get_ratio(name):
            """Return the ratio that an option gives, or None."""
            return report.get_number(parsed_args, name, 0, sizing.MOST_RATIO,
                                     capacity.parse_ratio)

        least = 1 if parsed_args.mix else 0
        size = sizing.HostSize(
            report.get_number(
                parsed_args, 'dedicated', least, sizing.MOST_CPUS),
            report.get_number(parsed_args, 'shared', least, sizing.MOST_CPUS),
            get_ratio('ratio'), parsed_args.mix)
        low = report.get_number(parsed_args, 'low_vcpus', 1,
                                # MOST_CPUS dedicated, MOST_CPUS shared.
                                2 * sizing.MOST_CPUS * sizing.MOST_RATIO)
        overall = get_ratio('overall_ratio')
        has_target = low is not None or overall is not None
        missing = size.count(None)
        if missing != (1 if has_target else 0):
            raise exceptions.CommandError(
                '%d of --dedicated, --shared and --ratio are given, %s '
                '--low-vcpus or --overall-ratio; allowed are all three '
                'without such a wanted number, or two of them with it.'
                % (3 - missing, 'with' if has_target else 'without'))
        if has_target:
            try:
                size = sizing.solve(size, low, overall)
            except sizing.NoSolution as error:
                raise exceptions.CommandError(str(error)) from error
        rows = size.sellable
        if size.mix and not rows.low:
            raise exceptions.CommandError(
                'The ratio %s leaves no sellable low-priority vCPU on %d '
                'dedicated and %d shared CPUs, so nova-compute with '
                'cpu_priority_mix_enable would not start. Use a larger ratio, '
                'or --no-mix.' % (size.ratio, size.dedicated, size.shared))
        return zip(*(
            ('dedicated', size.dedicated), ('shared', size.shared),
            ('ratio', float(size.ratio)), ('mix', size.mix),
            ('high_vcpus', rows.high), ('low_vcpus', rows.low),
            ('ordinary_vcpus', rows.ordinary),
            ('overall_ratio', round(float(size.overall_ratio), 4))),
            strict=True)
