# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host plan``."""

import re

from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import host
from nova_prio.cmd import report
from nova_prio.model import capacity
from nova_prio.model import sizing


class Plan(report.Report):
    """Show what other CPU sets, ratio and mix would do to a host.

    Nothing is changed. Listed are, as they are and as they would be: options,
    inventories and traits in Placement, room; each instance that would be over
    what its row sells, is pinned outside of the dedicated CPUs, goes on to
    float on them, or would be joined by low-priority guests; what is in the
    way; and the steps in their order. It reads Nova's databases: run it where
    nova-manage runs, and on the host for what only the host knows, with or
    without these. With -f json the output is kept for "host verify" and "host
    disable". Exit status: 0 where it is ready, 3 where something is in the
    way.
    """

    of_host = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        for name in ('dedicated', 'shared'):
            parser.add_argument(
                '--' + name, default='', metavar='CPUS',
                help='[compute] cpu_%s_set as it is to be' % name)
        parser.add_argument(
            '--ratio', required=True, metavar='RATIO',
            help='[DEFAULT] cpu_allocation_ratio as it is to be')
        parser.add_argument(
            '--no-mix', dest='mix', action='store_false',
            help='without cpu_priority_mix_enable')
        return parser

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.host import plan
        from nova_prio.admin.host import plan_format
        cpus = _cpus(parsed_args)
        found = list(self._rows(parsed_args.host, cpus))
        found += plan.list_steps(parsed_args.host, cpus, found)
        *_, first, verdict = (
            row for row in found
            if row.part == plan_format.VERDICT or row[:2] == (plan_format.STEP, '1'))
        if verdict.then == plan_format.NOT_READY:
            self.status = report.FOUND
        self.said = 'The host is %s. Next: %s' % (verdict.then, first.remedy)
        return plan_format.COLUMNS, [
            (row.part, row.name, report.Value(row.now),
             report.Value(row.then), row.remedy) for row in found]

    def _rows(self, name, cpus):
        """Yield the Rows that can be known here."""
        from nova_prio.admin.host import local_checks
        from nova_prio.admin.host import plan
        conf = self.conf
        is_here = conf.host == name
        if is_here:
            here, running = controller.read_guests(
                conf, 'Run this as a user whom libvirt answers.')
            _check_numbers(here, cpus)
        if conf.api_database.connection:
            yield from plan.make_plan(
                *self.look(name), cpus,
                {guest.uuid: guest for guest in running} if is_here else None)
        elif is_here:
            yield from local_checks.check_guests(here, running, cpus)
        else:
            raise exceptions.CommandError(
                "HOST is '%s'; allowed is this host, '%s', where "
                '[api_database] connection is not set.' % (name, conf.host))
        if is_here:
            yield from local_checks.check_host(conf, cpus, host.find_problems())
        else:
            yield local_checks.NOT_SEEN


def _cpus(parsed_args):
    """Return the ``capacity.HostCPUs`` that are asked for."""
    from nova import exception
    from nova.virt import hardware
    sets = {}
    for name in ('dedicated', 'shared'):
        text = getattr(parsed_args, name)
        try:
            if any(int(number) >= sizing.MOST_CPUS
                   for number in re.findall('[0-9]+', text)):
                # As long as it is no list of all numbers in between.
                raise ValueError
            sets[name] = frozenset(
                hardware.parse_cpu_spec(text) if text else ())
        except (exception.Invalid, ValueError) as error:
            raise exceptions.CommandError(
                "--%s is '%s'; allowed are CPU numbers below %d, such as "
                '0-3,8.' % (name, text, sizing.MOST_CPUS)) from error
    both = sets['dedicated'] & sets['shared']
    if both:
        raise exceptions.CommandError(
            '--dedicated and --shared both hold CPUs %s; allowed is each in '
            'one of the two.' % hardware.format_cpu_spec(both))
    try:
        ratio = capacity.parse_ratio(parsed_args.ratio)
    except ValueError:
        ratio = 0
    if not 0 < ratio <= sizing.MOST_RATIO:
        raise exceptions.CommandError(
            "--ratio is '%s'; allowed are numbers above 0, up to %d."
            % (parsed_args.ratio, sizing.MOST_RATIO))
    cpus = capacity.HostCPUs(ratio=ratio, mix=parsed_args.mix, **sets)
    if cpus.mix and not all(sets.values()):
        raise exceptions.CommandError(
            '--dedicated and --shared are needed with mix; give both, or '
            '--no-mix.')
    if not any(sets.values()):
        raise exceptions.CommandError(
            'Neither --dedicated nor --shared is given; give one, or both.')
    if cpus.mix and cpus.sellable.low < 1:
        raise exceptions.CommandError(
            '--ratio is %s, with which no low-priority vCPU can be sold; '
            'raise it, or enlarge --shared.' % ratio)
    return cpus


def _check_numbers(here, cpus):
    """Refuse CPUs that this host does not have."""
    from nova.virt import hardware
    there = frozenset().union(*here.cells)
    wrong = (cpus.dedicated | cpus.shared) - there
    if there and wrong:
        raise exceptions.CommandError(
            '--dedicated or --shared holds CPUs %s; allowed are those of the '
            'host: %s.' % (hardware.format_cpu_spec(wrong),
                           hardware.format_cpu_spec(there)))
