# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host verify``."""

import functools

from nova_prio.cmd import controller
from nova_prio.cmd import host_selection
from nova_prio.cmd import report


class VerifyHost(report.Report):
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
        """List the values of one host, or a line for each of several.

        The values are what the plan, Placement, nova-compute and libvirt say
        about the same item, such as an inventory.

        :returns: exit status
        """
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        # For several hosts, --plan must be a directory with their plans.
        host_selection.check_plan(parsed_args)
        verify = functools.partial(
            self._verify, parsed_args, controller.make_placement_client())
        return host_selection.act_on_hosts(
            self, context, parsed_args, hosts, verify)

    def _verify(self, parsed_args, placement, context, host):
        """Compare the values of a host; list them if it is a single host.

        :param placement: SchedulerReportClient
        :param host: name of the host
        :returns: HostResult
        """
        from nova_prio.admin.host import state as host_state
        from nova_prio.admin.host import verify
        plan = host_selection.load_plan(parsed_args, host)
        view = host_state.read_state(context, placement, host)
        audit = controller.make_audit(context, placement)
        # A line has a value of the plan, of Placement, of nova-compute and of
        # libvirt, and the state OK, DIFFERS or UNREAD.
        lines = list(verify.list_lines(view, audit, plan))
        is_one_host = host_selection.is_one_host(parsed_args)
        if is_one_host:
            columns = verify.COLUMNS + (report.INSTANCE_NAME, )
            rows = [report.format_line(line) + [
                view.names.get(line.consumer, '')] for line in lines]
            # The UUIDs of instances are in the column "Item".
            self.show(parsed_args, columns, rows, uuid_column='Item')
        different = [line for line in lines if line.state != verify.OK]
        if not different:
            return host_selection.HostResult(
                verify.OK, amount=0,
                next_step=_format_agreement(host, is_one_host))
        state, exit_status = verify.DIFFERS, report.FOUND
        next_step = ('Not all values agree: correct the rows of state '
                     '"differs" from the top, and run this command again.')
        # A line that could not be read is worse than one that differs.
        if any(line.state == verify.UNREAD for line in different):
            state, exit_status = verify.UNREAD, report.FAILED
            next_step = ('Not all could be checked: correct the rows of state '
                         '"unread", and run this command again.')
        if not is_one_host:
            # The lines are not shown: give the first remedy.
            next_step = next(
                line.remedy for line in different if line.state == state)
        return host_selection.HostResult(
            state, amount=len(different), next_step=next_step,
            status=exit_status)


def _format_agreement(host, is_one_host):
    """Return the next step for a host if all values agree, as sentences."""
    are_guests_read = (controller.get_conf().host == host and
                       controller.is_compute())
    if is_one_host:
        if are_guests_read:
            return 'All values agree: there is nothing to do.'
        return (
            'All values agree. The guests were not checked: to check them, '
            'run this command on %s, with two options --config-file: for the '
            'file with the databases and for that of nova-compute.' % host)
    if are_guests_read:
        return 'There is nothing to do.'
    return 'The guests were not checked: run this command on the host.'
