# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio audit``."""

import dataclasses
import functools
import sys

from osc_lib import exceptions
import tqdm

from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio.virt import driver_alias

COLUMNS = ('Host', 'Finding', 'Consumer', 'Needed', 'Placement', 'Compute',
           'Libvirt', 'State', 'Remedy')

#: Exit status where all was repaired; this, and those of the other commands
#: for clean and found, are those of ``nova-manage placement audit``.
FIXED = 4
#: State of a finding -> exit status, and what to do next. The first of them
#: that there is counts.
_OUTCOMES = {
    'failed': (report.FAILED, 'Not all could be looked at or repaired: see '
               'to what is listed as "failed", and run this again.'),
    'found': (report.FOUND, 'Something is not right: see to it as the column '
              '"Remedy" says, and run this again.'),
    'to be fixed': (report.FOUND, 'Nothing was changed: run this without '
                    '--dry-run to repair what is listed as "to be fixed".'),
    'fixed': (FIXED, 'All that was found is repaired: there is nothing to '
              'do.'),
    None: (report.CLEAN, 'All is right: there is nothing to do.')}
#: No sentence names more hosts.
MOST_NAMES = 10


class Audit(report.Report):
    """Find and repair what Nova, Placement and the hosts do not agree about.

    For each host, what its instances need is compared with what Placement
    holds and what the compute reports, and with what libvirt runs, where the
    configuration is that of nova-compute on this host. It reads Nova's
    databases: run it where nova-manage runs. Without their configuration, on
    a compute host, it looks at the guests alone. Exit status: 0 where all is
    right, 3 where something was found, 4 where all of it was repaired, 1 where
    a host could not be looked at or a repair failed.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host', action='append', metavar='HOST',
            help='look at this host (repeat the option for several)')
        parser.add_argument(
            '--all', action='store_true',
            help='list what the hosts need, hold, report and run, too')
        parser.add_argument(
            '--fix', action='store_true',
            help='repair in Placement what can be repaired, and end '
            'unfinished migrations; no guest is touched, nor an instance that '
            'is changed or moved')
        parser.add_argument(
            '--dry-run', action='store_true',
            help='with --fix: show what would be repaired')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        if parsed_args.dry_run and not parsed_args.fix:
            raise exceptions.CommandError(
                '--dry-run is given without --fix; allowed is both, or '
                'neither: without --fix nothing is repaired.')
        for column in parsed_args.columns:
            # Before anything is repaired.
            if column not in COLUMNS:
                raise exceptions.CommandError(
                    "--column is '%s'; allowed are %s."
                    % (column, ', '.join(COLUMNS)))
        return super().take_action(parsed_args)

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        self._states = set()
        found = []
        try:
            for row in (self._cloud if self.conf.api_database.connection
                        else self._guests)(parsed_args):
                found.append(row)
        except KeyboardInterrupt:
            # What was repaired is listed in any case.
            self._states.add('failed')
            self.app.LOG.warning('Interrupted: the other hosts were not '
                                 'looked at.')
        self.status, self.said = next(
            outcome for state, outcome in _OUTCOMES.items()
            if state in self._states or state is None)
        return COLUMNS, found

    @property
    def _has_guests(self):
        return self.conf.compute_driver == driver_alias.DRIVER

    def _guests(self, parsed_args):
        """Yield the rows of this compute host, which knows no more."""
        from nova_prio.admin.audit import guests
        conf = self.conf
        if not self._has_guests:
            raise exceptions.CommandError(
                "There is nothing to audit: [api_database] connection is not "
                "set, and [DEFAULT] compute_driver is '%s'; give a "
                "configuration of nova-manage or of a nova-compute with '%s' "
                "with --config-file."
                % (conf.compute_driver, driver_alias.DRIVER))
        if parsed_args.fix:
            raise exceptions.CommandError(
                '--fix is given, but [api_database] connection is not set; '
                'without it nothing can be repaired.')
        for name in parsed_args.host or ():
            if name != conf.host:
                raise exceptions.CommandError(
                    "--host is '%s'; allowed is this host, '%s', where "
                    "[api_database] connection is not set."
                    % (name, conf.host))
        here, running = controller.read_guests(
            conf, 'Run this on the host, as a user whom libvirt answers.')
        found = list(guests.check(conf.host, here, running))
        for each in found:
            yield self._row(each, 'found')
        if parsed_args.all and not found:
            yield (conf.host, '', '', '', '', '',
                   guests.summarize(here, running), 'ok', '')

    def _cloud(self, parsed_args):
        """Yield the rows of the hosts of the cloud."""
        from nova_prio.admin.audit import guests
        from nova_prio.admin.audit import host_view
        from nova_prio.admin.audit import run
        names = parsed_args.host
        total = len(names) if names else host_view.count_hosts(self.context)
        audit = run.CloudAudit(
            self.context, self.placement,
            self.conf.host if self._has_guests else None,
            functools.partial(guests.read_guests, self.conf))
        in_motion = []
        for found, view in tqdm.tqdm(
                audit.run(names), unit=' hosts', leave=False, total=total,
                # Only where somebody looks at it.
                disable=None, file=sys.stderr):
            for each in found:
                yield self._row(
                    *self._handled(audit, view, each, parsed_args))
            if view and not view.is_at_rest:
                in_motion.append(view.name)
            if parsed_args.all and view:
                yield self._row(
                    audit.summary(view), 'in motion' if not view.is_at_rest
                    else '' if found else 'ok')
        if in_motion:
            self.app.LOG.warning(
                'Of %d hosts, instances or migrations in motion were left '
                'out, and so were inventories and reports: %s%s.',
                len(in_motion), ', '.join(in_motion[:MOST_NAMES]),
                ', ...' * (len(in_motion) > MOST_NAMES))

    def _handled(self, audit, view, found, parsed_args):
        """Return a finding and what became of it."""
        from nova_prio.admin.audit import finding
        from nova_prio.placement import allocations
        if found.kind == finding.UNREAD:
            return dataclasses.replace(found, note=found.remedy), 'failed'
        if found.repair is None or not parsed_args.fix:
            return found, 'found'
        if parsed_args.dry_run:
            return found, 'to be fixed'
        try:
            audit.mend(view, found)
        except allocations.PlacementRefused as error:
            return dataclasses.replace(
                found, note='%s.' % str(error).rstrip('.')), 'failed'
        return found, 'fixed'

    def _row(self, found, state):
        self._states.add(state)
        remedy = {'fixed': '', 'failed': found.note}.get(state, found.remedy)
        return (found.host, found.kind, found.consumer, found.needed,
                found.placement, found.compute, found.libvirt, state,
                remedy)
