# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host verify``."""

import functools

from nova_prio.cmd import controller
from nova_prio.cmd import host_selection
from nova_prio.cmd import report


class Verify(report.Report):
    """Compare the state of hosts with their plans.

    For each item, list the value in the plan, in Placement, in the report of
    nova-compute and, if this command runs on the host with the configuration
    of nova-compute, in libvirt. Differences are listed with a remedy, and so
    are the findings of the audit. Without --plan, the others are compared with
    each other. For several hosts, list one line for each host. This command
    reads Nova's databases: run it where nova-manage runs. Exit status: 0 if
    all values agree, 3 if something differs, 1 if a check failed.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        host_selection.add_plan_option(parser)
        host_selection.add_options(parser)
        return parser

    def act(self, context, parsed_args):
        """List the values, or the hosts; return the exit status."""
        from nova_prio.admin.host import verify
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        host_selection.check_plan(parsed_args)
        placement = controller.make_placement_client()
        if not host_selection.is_one_host(parsed_args):
            return host_selection.show_results(
                self, parsed_args, hosts,
                functools.partial(_verify, parsed_args, placement))
        host, = hosts
        lines, names = _compare(parsed_args, placement, context, host)
        self.show(parsed_args, (*verify.COLUMNS, report.INSTANCE_NAME), [
            (*report.format_line(line), names.get(line.consumer, ''))
            for line in lines], 'Item')
        agreement = 'All values agree: there is nothing to do.'
        if not _reads_guests(host):
            agreement = (
                'All values agree. The guests were not checked: to check '
                'them, run this command on %s, with two options '
                '--config-file: for the file with the databases and for that '
                'of nova-compute.' % host)
        return self.end(*report.find_outcome(
            {line.state for line in lines}, (
                (verify.UNREAD, report.FAILED, 'Not all could be checked: '
                 'correct the rows of state "unread", and run this command '
                 'again.'),
                (verify.DIFFERS, report.FOUND, 'Not all values agree: correct '
                 'the rows of state "differs" from the top, and run this '
                 'command again.'),
                (None, report.CLEAN, agreement))))


def _verify(parsed_args, placement, context, host):
    """Return the HostResult of one of several hosts."""
    from nova_prio.admin.host import verify
    lines, _ = _compare(parsed_args, placement, context, host)
    for state, status in ((verify.UNREAD, report.FAILED),
                          (verify.DIFFERS, report.FOUND)):
        remedies = [line.remedy for line in lines if line.state == state]
        if remedies:
            return host_selection.HostResult(
                state, sum(line.state != verify.OK for line in lines),
                remedies[0], status)
    next_step = 'There is nothing to do.'
    if not _reads_guests(host):
        next_step = (
            'The guests were not checked: run this command on the host.')
    return host_selection.HostResult(verify.OK, 0, next_step)


def _reads_guests(host):
    """Return whether this command runs on a host as nova-compute does."""
    return controller.get_conf().host == host and controller.is_compute()


def _compare(parsed_args, placement, context, host):
    """Return the VerifyLines of a host, and the names of its instances.

    :returns: (list of VerifyLine, dict: UUID of an instance -> its name)
    """
    from nova_prio.admin.host import state
    from nova_prio.admin.host import verify
    plan = host_selection.load_plan(parsed_args, host)
    view = state.read_state(context, placement, host)
    audit = controller.make_audit(context, placement)
    # The host has one compute node, so the audit has one result.
    (findings, _), = audit.run([host])
    lines = verify.list_lines(view, findings, audit.summarize(view), plan)
    return list(lines), view.names
