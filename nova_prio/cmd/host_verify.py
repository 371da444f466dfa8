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
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        host_selection.check_plan(parsed_args)
        return host_selection.act_on_hosts(
            self, context, parsed_args, hosts, functools.partial(
                self._verify, parsed_args,
                controller.make_placement_client()))

    def _verify(self, parsed_args, placement, context, host):
        """Return the HostResult of a host; list the values of a single one."""
        from nova_prio.admin.host import state as host_state
        from nova_prio.admin.host import verify
        plan = host_selection.load_plan(parsed_args, host)
        view = host_state.read_state(context, placement, host)
        audit = controller.make_audit(context, placement)
        lines = list(verify.list_lines(view, audit, plan))
        is_one_host = host_selection.is_one_host(parsed_args)
        if is_one_host:
            columns = verify.COLUMNS + (report.INSTANCE_NAME, )
            rows = [report.format_line(line) + [
                view.names.get(line.consumer, '')] for line in lines]
            self.show(parsed_args, columns, rows, 'Item')
        different = [line for line in lines if line.state != verify.OK]
        for state, status, advice in (
                (verify.UNREAD, report.FAILED, 'Not all could be checked: '
                 'correct the rows of state "unread", and run this command '
                 'again.'),
                (verify.DIFFERS, report.FOUND, 'Not all values agree: correct '
                 'the rows of state "differs" from the top, and run this '
                 'command again.')):
            remedies = [line.remedy for line in different
                        if line.state == state]
            if remedies:
                if not is_one_host:
                    advice = remedies[0]
                return host_selection.HostResult(
                    state, len(different), next_step=advice, status=status)
        return host_selection.HostResult(
            verify.OK, 0, next_step=_format_agreement(host, is_one_host))


def _format_agreement(host, is_one_host):
    """Return the last line, or the next step, if all values agree."""
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
