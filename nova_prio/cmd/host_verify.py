# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host verify``."""

import functools

from osc_lib import exceptions

from nova_prio.cmd import report
from nova_prio.virt import driver_alias


class Verify(report.Report):
    """Compare what a host is with what was planned.

    Side by side stand what the plan says, what Placement holds, what
    nova-compute reports, and what libvirt runs, where this is run on the host
    with its configuration. What does not agree is listed with its remedy, also
    what the audit finds. It reads Nova's databases: run it where nova-manage
    runs. Exit status: 0 where all agree, 3 where something differs, 1 where
    not all could be looked at.
    """

    of_host = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--plan', metavar='FILE',
            help='what "host plan -f json" wrote; without it, the others are '
            'compared with each other')
        return parser

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.audit import guests
        from nova_prio.admin.audit import run
        from nova_prio.admin.host import verify
        host = parsed_args.host
        plan = load_plan_of_host(host, parsed_args.plan)
        is_here = (self.conf.host == host and
                   self.conf.compute_driver == driver_alias.DRIVER)
        view, is_marked, is_up = self.look(host)
        audit = run.CloudAudit(
            self.context, self.placement, host if is_here else None,
            functools.partial(guests.read_guests, self.conf))
        found = [each for several, _ in audit.run([host]) for each in several]
        lines = list(verify.list_lines(
            view, is_marked, is_up, found, audit.summary(view), plan))
        states = {line.state for line in lines}
        if verify.UNREAD in states:
            self.status, self.said = report.FAILED, (
                'Not all could be looked at: see to what is listed as '
                '"unread", and run this again.')
        elif verify.DIFFERS in states:
            self.status, self.said = report.FOUND, (
                'Not all agree: see to what is listed as "differs", from the '
                'top, and run this again.')
        elif not is_here:
            self.said = (
                'All agree, as far as it is seen from here. For its guests '
                'run this on %s, with --config-file for the file that names '
                'the databases, and again for that of nova-compute.' % host)
        else:
            self.said = 'All agree: there is nothing to do.'
        return verify.COLUMNS, [
            (line.item, *map(report.Value, line[1:5]), line.state, line.remedy)
            for line in lines]


def load_plan_of_host(host, path):
    """Return the ``rows.Plan`` of a host in a file, None without a file."""
    if path is None:
        return None
    from nova_prio.admin.host import plan_format
    try:
        plan = plan_format.load_plan(path)
    except plan_format.PlanUnreadable as error:
        raise exceptions.CommandError('--plan: %s.' % error) from error
    if plan.host != host:
        raise exceptions.CommandError(
            '--plan is %s, a plan of %s; allowed is one of %s.'
            % (path, plan.host, host))
    return plan
