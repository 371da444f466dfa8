# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio room plan``."""

import collections
import time

from nova_prio.cmd import changes
from nova_prio.cmd import controller
from nova_prio.cmd import nova_api
from nova_prio.cmd import report
from nova_prio_host import command as host_command

COLUMNS = ['Instance', 'Name', 'Class', 'Way', 'Source', 'Destination']
#: The effect of preemption, for the last line.
PREEMPTION = (
    'To shelve or delete a low-priority server frees memory, disk and shared '
    'vCPUs, but no dedicated CPUs, because it uses none. To stop a server '
    'frees nothing.')


class PlanRoom(report.Report):
    """List the moves after which new servers of a flavor fit.

    The moves with the least harm come first: live migration before cold
    migration before shelving, and low-priority servers before ordinary ones
    before those of high priority. Only low-priority servers are shelved. To
    shelve or delete a low-priority server frees memory, disk and shared vCPUs,
    but no dedicated CPUs, because it uses none. To stop a server frees
    nothing: Nova keeps its allocations. Without --apply, this command changes
    nothing. It reads Nova's databases: run it where nova-manage runs.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        nova_api.add_cloud_option(parser)
        changes.add_options(parser)
        parser.add_argument(
            '--flavor', metavar='FLAVOR', required=True,
            help='name or ID of the flavor of the new servers')
        parser.add_argument(
            '--count', metavar='N', default=1,
            type=host_command.parse_number,
            help='number of new servers (default: %(default)s)')
        parser.add_argument(
            '--aggregate', metavar='NAME',
            help='use only the hosts of this aggregate for the new servers')
        parser.add_argument(
            '--apply', action='store_true', help='make the moves')
        changes.add_timeout(parser, nova_api.TIMEOUT_HELP)
        return parser

    def act(self, context, parsed_args):
        """List the planned moves, and make them; return the exit status."""
        from nova_prio.admin.moves import room_plan
        # No move starts after this time.
        end = time.monotonic() + parsed_args.timeout
        flavor = controller.find_flavor(context, parsed_args.flavor)
        if parsed_args.aggregate is not None:
            report.get_aggregate_hosts(
                context, '--aggregate', parsed_args.aggregate,
                allowed='names of aggregates with computes')
        number = parsed_args.count
        room = room_plan.RoomPlan(
            context, controller.make_placement_client(), flavor=flavor,
            number=number, aggregate=parsed_args.aggregate)
        room.refresh()
        report.warn_of_silent_cells(self.app, room.cloud.silent_cells)
        for doubt in room.doubts:
            self.app.LOG.warning('The new servers may not fit: %s.', doubt)
        moves = room.plan.moves
        if room.plan.misses:
            # Not all new servers fit even after the moves: list none of them.
            moves = []
        self.show(parsed_args, COLUMNS, _make_rows(room.cloud, moves))
        if room.plan.misses:
            return self.end(report.FOUND, _describe_miss(
                room.plan, flavor.name, number))
        if not moves:
            return self.end(report.CLEAN, _describe_room(
                room.plan, flavor.name, 'without a move'))
        if not parsed_args.apply or parsed_args.dry_run:
            return self.end(report.CLEAN, (
                '%s Nothing was changed: to make the moves, run this command '
                'with --apply. %s' % (_describe_room(
                    room.plan, flavor.name, 'after these moves'),
                    PREEMPTION)))
        nova = nova_api.connect(parsed_args)
        changes.confirm(self.app, parsed_args, 'Make %s of servers?'
                        % report.format_count(len(moves), 'move'))

        def observe(sentence, has_left):
            """Log a change; whether an instance has left does not matter."""
            changes.log_change(self.app, '%s', sentence)

        try:
            reason = room.run(nova, end, observe)
        except KeyboardInterrupt:
            reason = 'Interrupted.'
        if reason:
            return self.end(report.FOUND, (
                '%s Nova goes on with the moves that are running. Run this '
                'command again for a new plan.' % reason))
        return self.end(report.CLEAN, _describe_room(
            room.plan, flavor.name, 'now'))


def _make_rows(cloud, moves):
    """Return the rows of the planned moves.

    :param cloud: ``cloud_fleet.CloudFleet``, the hosts and instances
    :param moves: tuple of ``fleet.Move``
    :returns: list of tuples with the values of ``COLUMNS``
    """
    rows = []
    for move in moves:
        # The class of an instance is 'high', 'low' or 'ordinary', which is an
        # instance without a priority.
        details = cloud.details[move.uuid]
        rows.append((move.uuid, details.name, details.class_name, move.way,
                     move.source, move.destination or ''))
    return rows


def _describe_room(plan, flavor_name, condition):
    """Return a sentence about the hosts of the new servers.

    :param plan: ``plan.Plan``, whose ``hosts`` has a name for each new server
    :param condition: ends the phrase "servers that fit"
    """
    servers_of_hosts = collections.Counter(plan.hosts)
    hosts = ', '.join('%s (%d)' % (host, number)
                      for host, number in sorted(servers_of_hosts.items()))
    return 'New servers of flavor %s that fit %s: %d, on %s.' % (
        flavor_name, condition, len(plan.hosts), hosts)


def _describe_miss(plan, flavor_name, number):
    """Return the sentences about new servers that do not fit.

    The last sentences say what to shelve, delete or stop a server frees.

    :param plan: ``plan.Plan``. Its ``hosts`` has a name for each new server
        that fits.
    :param number: number of the new servers
    """
    # Only a command that runs needs the planner: the help must be fast.
    from nova_prio.model.planner import plan as planner
    # The new servers are equal. So the plan has one miss, why the next server
    # does not fit, and this stands for all others.
    miss, = plan.misses
    fitting = len(plan.hosts)
    # The resources that one more host must have for the others.
    addition = planner.calculate_addition((number - fitting) * [miss])
    reason = 'the next one has %s' % miss.reason
    if miss.host:
        reason = 'the next one lacks the least on host %s: %s' % (
            miss.host, miss.reason)
    return (
        'New servers of flavor %s that fit if all allowed moves are made: '
        '%d of %d; %s. One more host would need %s for the others. %s' % (
            flavor_name, fitting, number, reason.rstrip('.'), addition,
            PREEMPTION))
