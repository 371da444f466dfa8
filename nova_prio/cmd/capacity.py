# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio capacity``."""

import collections
import itertools

from cliff import lister
from cliff import show
from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio.model import capacity
from nova_prio.model import sizing

COLUMNS = ['%s %s' % (row.title(), what) for row in capacity.Rows._fields
           for what in ('Sold', 'Sellable', 'Left')]


class Show(report.FromNova, lister.Lister):
    """List how many vCPUs hosts have sold, may sell, and have left.

    It shows what the computes reported last, for each row: the high one of
    dedicated vCPUs, the low one of all shared vCPUs, the ordinary one of those
    that are not of low priority. Hosts that report nothing, for they run
    another driver, are left out. It reads Nova's databases: run it where
    nova-manage runs.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host', action='append', metavar='HOST',
            help='list this host (repeat the option for several)')
        parser.add_argument(
            '--aggregate', action='append', metavar='NAME',
            help='list the hosts of this aggregate (repeat the option for '
            'several)')
        parser.add_argument(
            '--by-aggregate', action='store_true',
            help='list the aggregates, each with the sum of its hosts')
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='list how many instances of this flavor (name or ID) '
            'have room, too')
        return parser

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin import host_inventory
        hosts, silent = host_inventory.list_hosts(self.context)
        kind = host_inventory.get_resource_request(controller.find_flavor(
            self.context, parsed_args.flavor)) if parsed_args.flavor else None
        for cell in silent:
            self.app.LOG.warning(
                'Cell %s does not answer; its hosts are left out.', cell)
        sums = collections.defaultdict(collections.Counter)
        by_aggregate = parsed_args.by_aggregate
        for host in self._chosen(hosts, parsed_args):
            for name in _aggregates(host) if by_aggregate else [host.name]:
                sums[name].update(_numbers(host, kind))
        columns = ['Hosts'] * by_aggregate + COLUMNS + ['Units'] * bool(kind)
        return (['Aggregate' if by_aggregate else 'Host', *columns],
                [[name, *(found[column] for column in columns)]
                 for name, found in sorted(sums.items())])

    def _chosen(self, hosts, parsed_args):
        """Yield those that are asked for and have a report."""
        chosen = hosts
        for what, wanted, names_of in (
                ('host', parsed_args.host, lambda host: [host.name]),
                ('aggregate', parsed_args.aggregate, _aggregates)):
            if not wanted:
                continue
            unknown = set(wanted).difference(*map(names_of, hosts))
            if unknown:
                raise exceptions.CommandError(
                    "--%s is '%s'; allowed are names of %ss with computes."
                    % (what, min(unknown), what))
            chosen = [host for host in chosen
                      if not set(wanted).isdisjoint(names_of(host))]
        for host in chosen:
            if host.problem:
                self.app.LOG.warning('%s is left out: %s.', host.name,
                                     host.problem)
            elif host.report:
                yield host


class Solve(show.ShowOne):
    """Show what a host sells, or what it needs to sell a wanted number.

    With the numbers of dedicated and shared CPUs and the allocation ratio it
    shows what the host sells. With two of the three and what is wanted, it
    finds the third, which sells that and as little more as possible.
    """

    def get_parser(self, prog_name):
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
            help='wanted: vCPUs of low-priority instances beside the high row')
        wanted.add_argument(
            '--overall-ratio', metavar='RATIO',
            help='wanted: vCPUs of all instances for each CPU of the host')
        parser.add_argument(
            '--no-mix', dest='mix', action='store_false',
            help='low-priority instances float on the shared CPUs alone, as '
            'without cpu_priority_mix_enable')
        return parser

    def take_action(self, parsed_args):
        """Return the names and the values to show, in their order."""
        terms = sizing.HostSize(
            *(_whole(parsed_args, name, int(parsed_args.mix),
                     sizing.MOST_CPUS) for name in ('dedicated', 'shared')),
            _ratio(parsed_args, 'ratio'), parsed_args.mix)
        low = _whole(parsed_args, 'low_vcpus', 1,
                     2 * sizing.MOST_CPUS * sizing.MOST_RATIO)
        overall = _ratio(parsed_args, 'overall_ratio')
        wanted = [value for value in (low, overall) if value is not None]
        if terms.count(None) != len(wanted):
            raise exceptions.CommandError(
                'Of --dedicated, --shared and --ratio %d are given, %s; '
                'allowed are all three, or two of them with --low-vcpus or '
                '--overall-ratio.'
                % (3 - terms.count(None), 'with what is wanted' if wanted
                   else 'and nothing that is wanted'))
        if wanted:
            try:
                terms = sizing.solve(terms, low, overall)
            except sizing.NoSolution as error:
                raise exceptions.CommandError(str(error)) from error
        rows = terms.sellable
        if terms.mix and not rows.low:
            raise exceptions.CommandError(
                'The ratio %s leaves no low-priority vCPU to sell on %d '
                'dedicated and %d shared CPUs, which nova-compute refuses '
                'with cpu_priority_mix_enable; allowed is a larger one, or '
                '--no-mix.' % (terms.ratio, terms.dedicated, terms.shared))
        return zip(*(
            ('dedicated', terms.dedicated), ('shared', terms.shared),
            ('ratio', float(terms.ratio)), ('mix', terms.mix),
            ('high_vcpus', rows.high), ('low_vcpus', rows.low),
            ('ordinary_vcpus', rows.ordinary),
            ('overall_ratio', round(float(terms.overall_ratio), 4))),
            strict=True)


def _aggregates(host):
    return [aggregate.name for aggregate in host.aggregates]


def _numbers(host, kind):
    """Return dict, column -> number, of one host."""
    report = host.report
    cells = itertools.chain.from_iterable(
        zip(report.used, report.sellable, report.room))
    return {'Hosts': 1, **dict(zip(COLUMNS, cells)),
            'Units': host.units(kind) if kind else 0}


def _whole(parsed_args, name, least, most):
    value = getattr(parsed_args, name)
    if value is not None and not least <= value <= most:
        raise exceptions.CommandError(
            '--%s is %d; allowed is a whole number from %d to %d.'
            % (name.replace('_', '-'), value, least, most))
    return value


def _ratio(parsed_args, name):
    text = getattr(parsed_args, name)
    if text is None:
        return None
    try:
        value = capacity.parse_ratio(text)
    except ValueError:
        value = None
    if value is None or value > sizing.MOST_RATIO:
        raise exceptions.CommandError(
            "--%s is '%s'; allowed is a number from 0 to %d."
            % (name.replace('_', '-'), text, sizing.MOST_RATIO))
    return value
