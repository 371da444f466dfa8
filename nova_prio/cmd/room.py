# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio room plan``."""

import collections
import functools
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


class Plan(changes.Changes, nova_api.NovaAPI, report.Report):
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
        parser.add_argument(
            '--flavor', metavar='FLAVOR', required=True,
            help='name or ID of the flavor of the new servers')
        parser.add_argument(
            '--count', metavar='N', default=1,
            type=functools.partial(host_command.parse_number, least=1),
            help='number of new servers (default: %(default)s)')
        parser.add_argument(
            '--aggregate', metavar='NAME',
            help='use only the hosts of this aggregate for the new servers')
        parser.add_argument(
            '--apply', action='store_true', help='make the moves')
        nova_api.add_timeout(parser)
        return parser

    def take_action(self, parsed_args):
        """Return the columns, and the planned moves as rows."""
        from nova_prio.admin.moves import room
        self._end = time.monotonic() + parsed_args.timeout
        flavor = controller.find_flavor(self.context, parsed_args.flavor)
        self._flavor, self._number = flavor.name, parsed_args.count
        report.check_aggregate(
            self.context, '--aggregate', parsed_args.aggregate,
            allowed='names of aggregates with computes')
        self._room = room.Room(self.context, self.placement, flavor,
                               self._number, parsed_args.aggregate)
        self._room.refresh()
        cloud, plan = self._room.cloud, self._room.plan
        self.warn_of_silent_cells(cloud.silent_cells)
        for doubt in self._room.doubts:
            self.app.LOG.warning('The new servers may not fit: %s.', doubt)
        classes = {each.uuid: each.needs.class_name
                   for each in cloud.instances}
        # Moves that do not suffice help nobody.
        return COLUMNS, [] if plan.misses else [
            [move.uuid, cloud.details[move.uuid].name,
             classes[move.uuid], move.way, move.source, move.destination or '']
            for move in plan.moves]

    def conclude(self, parsed_args):
        """Make the moves, if wanted; set the last line."""
        plan = self._room.plan
        if plan.misses:
            self.status = report.FOUND
            self.last_line = self._describe_miss()
        elif not plan.moves:
            self.last_line = self._describe_room('without a move')
        elif parsed_args.apply and not parsed_args.dry_run:
            self._make_moves(parsed_args)
        else:
            self.last_line = (
                '%s Nothing was changed: to make the moves, run this command '
                'with --apply. %s' % (
                    self._describe_room('after these moves'), PREEMPTION))

    def _describe_room(self, condition):
        """Return a sentence about the hosts of the new servers.

        :param condition: ends the phrase "servers that fit"
        """
        numbers = collections.Counter(self._room.plan.hosts)
        return 'New servers of flavor %s that fit %s: %d, on %s.' % (
            self._flavor, condition, self._number, ', '.join(
                '%s (%d)' % pair for pair in sorted(numbers.items())))

    def _describe_miss(self):
        """Return the sentences about new servers that do not fit."""
        from nova_prio.model.planner import plan
        miss, = self._room.plan.misses
        fitting = len(self._room.plan.hosts)
        if miss.host:
            reason = 'the next one lacks the least on host %s: %s' % (
                miss.host, miss.reason)
        else:
            reason = 'the next one has %s' % miss.reason
        return (
            'New servers of flavor %s that fit if all allowed moves are made: '
            '%d of %d; %s. One more host would need %s for the others. %s' % (
                self._flavor, fitting, self._number, reason.rstrip('.'),
                plan.calculate_addition(
                    (self._number - fitting) * [miss]), PREEMPTION))

    def _make_moves(self, parsed_args):
        """Ask, make the moves, and set the status and the last line."""
        nova = self.nova
        self.confirm(parsed_args, 'Make these %d moves of servers?'
                     % len(self._room.plan.moves))
        try:
            reason = self._room.run(nova, self._end, lambda text, has_left: (
                self.log_change('%s', text)))
        except KeyboardInterrupt:
            reason = 'Interrupted.'
        if not reason:
            self.last_line = self._describe_room('now')
            return
        self.status = report.FOUND
        self.last_line = (
            '%s Nova goes on with the moves that are running. Run this '
            'command again for a new plan.' % reason)
