# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio audit``."""

from osc_lib import exceptions
import tqdm
from tqdm.contrib import logging as tqdm_logging

from nova_prio.cmd import changes
from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio.virt import driver_alias

COLUMNS = ('Host', 'Finding', 'Consumer', 'Needed', 'Placement', 'Compute',
           'Libvirt', 'State', 'Remedy', report.INSTANCE_NAME)

#: Exit status if all was repaired, as that of ``nova-manage placement audit``.
FIXED = 4
#: State of a row, exit status, last line. The first outcome applies whose
#: state a row has; None stands for any state (``report.find_outcome``).
_OUTCOMES = (
    ('failed', report.FAILED, 'Not all hosts could be checked or repaired: '
     'correct the rows of state "failed", and run this command again.'),
    ('found', report.FOUND, 'There are findings: follow the column "Remedy", '
     'and run this command again.'),
    ('to be fixed', report.FOUND, 'Nothing was changed: run this command '
     'without --dry-run to repair the rows of state "to be fixed".'),
    ('fixed', FIXED, 'All findings are repaired: there is nothing to do.'),
    (None, report.CLEAN, 'There are no findings: there is nothing to do.'))
#: Maximum number of hosts that a warning names.
MAX_NAMES = 10


class Audit(report.Report):
    """Find and repair differences between Nova, Placement and the hosts.

    For each host, compare the expected allocations of its instances with the
    allocations in Placement and with the report of nova-compute. If the
    configuration is that of nova-compute on this host, compare them with the
    guests in libvirt as well. This command reads Nova's databases: run it
    where nova-manage runs. If [api_database] connection is not set, as on a
    compute host, it checks only the guests. Exit status: 0 if there are no
    findings, 3 if there are findings, 4 if all of them were repaired, 1 if a
    check or a repair failed.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line.

        The amounts that --all lists are what the instances of a host need,
        their allocations in Placement, the vCPUs that nova-compute reports,
        and the vCPUs of the running guests.
        """
        parser = super().get_parser(prog_name)
        changes.add_options(
            parser, 'with --fix: show the repairs and change nothing')
        parser.add_argument(
            '--host', action='append', metavar='HOST',
            help='check this host (repeat option to check multiple hosts)')
        parser.add_argument(
            '--all', action='store_true',
            help='also list the amounts that each host needs, holds, reports '
            'and runs')
        parser.add_argument(
            '--fix', action='store_true',
            help='repair findings in Placement, and end unfinished '
            'migrations; guests are never changed, nor are instances that '
            'are being changed or moved')
        return parser

    def act(self, context, parsed_args):
        """List the findings, and repair them if --fix is given.

        :returns: exit status
        """
        if parsed_args.dry_run and not parsed_args.fix:
            raise exceptions.CommandError(
                '--dry-run is given without --fix; add --fix, because without '
                'it nothing is repaired.')
        report.check_columns(parsed_args, COLUMNS)
        # ``found`` yields rows. The configuration of a compute host has no
        # databases, so that only the guests of the host can be checked.
        if controller.get_conf().api_database.connection:
            found = _audit_cloud(self.app, context, parsed_args)
        else:
            found = _audit_guests(parsed_args)
        rows, states = [], set()
        try:
            for row in found:
                rows.append(row)
                states.add(row[COLUMNS.index('State')])
        except KeyboardInterrupt:
            # List the repairs until now. The command then ends as if a host
            # could not be checked.
            states.add('failed')
            self.app.LOG.warning(
                'Interrupted: the remaining hosts were not checked.')
        # In a table, the instance name is beside the UUID of the consumer.
        self.show(parsed_args, COLUMNS, rows, 'Consumer')
        status, last_line = report.find_outcome(states, _OUTCOMES)
        return self.end(status, last_line)


def _audit_guests(parsed_args):
    """Yield the rows of this compute host, without Nova's databases.

    :returns: iterator of tuples with the values of ``COLUMNS``
    """
    from nova_prio.admin.audit import finding as audit_finding
    from nova_prio.admin.audit import guest_audit
    conf = controller.get_conf()
    if not controller.is_compute():
        raise exceptions.CommandError(
            'There is nothing to audit: [api_database] connection is not set, '
            "and [DEFAULT] compute_driver is '%s'. Give the configuration of "
            "nova-manage, or of a nova-compute with '%s', with --config-file."
            % (conf.compute_driver, driver_alias.DRIVER))
    if parsed_args.fix:
        raise exceptions.CommandError(
            '--fix is given, but [api_database] connection is not set; run '
            'this command where nova-manage runs.')
    for name in parsed_args.host or ():
        report.check_is_this_host(name)
    guest_host, running = controller.read_guests(conf)
    # A list of the findings, with the name of the host in each.
    findings = audit_finding.set_host(
        conf.host, guest_audit.check(guest_host, running))
    # Without the databases, the last column, the instance name, is unknown.
    for finding in findings:
        yield _make_row(finding, 'found') + ('',)
    if parsed_args.all and not findings:
        # A Finding without a kind: its row has the CPUs of the guests.
        totals = audit_finding.Finding(
            kind='', host=conf.host,
            libvirt=guest_audit.summarize(guest_host, running))
        yield _make_row(totals, 'ok') + ('',)


def _audit_cloud(app, context, parsed_args):
    """Yield the rows of the hosts of the cloud.

    :returns: iterator of tuples with the values of ``COLUMNS``
    """
    from nova import objects
    # None without --host, which means all hosts.
    names = parsed_args.host
    total = len(names or objects.HostMappingList.get_all(context))
    if parsed_args.fix:
        # A finding may be out of date if the operator answers late, so ask
        # before the hosts are read.
        changes.confirm(
            app, parsed_args, 'Check %s, and repair all findings?'
            % report.format_count(total, 'host'))
    audit = controller.make_audit(
        context, controller.make_placement_client())
    busy_hosts = []
    # Repairs are logged above the progress, which disable=None shows on a
    # terminal only.
    with tqdm_logging.logging_redirect_tqdm([app.LOG]):
        for findings, view in tqdm.tqdm(
                audit.run(names), unit=' hosts', leave=False, total=total,
                disable=None):
            for finding in findings:
                row = _repair_if_asked(app, audit, view, finding, parsed_args)
                instance_name = ''
                if view:
                    instance_name = view.names.get(finding.consumer, '')
                yield row + (instance_name,)
            # ``view`` is None if the host or its cell could not be read. Then
            # there are no totals.
            if not view:
                continue
            # The state of the totals of the host. Its findings have their own
            # states, so the totals then have none.
            state = '' if findings else 'ok'
            # Instances that are being changed or moved were not checked.
            if view.has_tasks_or_moves:
                busy_hosts.append(view.name)
                state = 'in motion'
            if parsed_args.all:
                yield _make_row(audit.summarize(view), state) + ('',)
    if busy_hosts:
        more = ', ...' if len(busy_hosts) > MAX_NAMES else ''
        app.LOG.warning(
            'On %s, in-flight instances and migrations, inventories and '
            'reports were not checked: %s%s.',
            report.format_count(len(busy_hosts), 'host'),
            ', '.join(busy_hosts[:MAX_NAMES]), more)


def _repair_if_asked(app, audit, view, finding, parsed_args):
    """Repair a Finding if the options ask for it; return its row.

    The state in the row tells whether the Finding is repaired. If a repair
    fails, this raises no error.

    :param audit: ``run.CloudAudit``
    :param view: HostView of the host, None if it cannot be read
    :returns: tuple with the values of all ``COLUMNS`` but the last one
    """
    from nova_prio.admin.audit import finding as audit_finding
    from nova_prio.placement import allocations
    # A host, a cell or the instance or migration that has an allocation could
    # not be read: there is nothing to repair.
    if finding.kind == audit_finding.UNREAD:
        return _make_row(finding, 'failed')
    # None: no code repairs such a Finding, and the operator must act.
    if finding.repair is None or not parsed_args.fix:
        return _make_row(finding, 'found')
    if parsed_args.dry_run:
        return _make_row(finding, 'to be fixed')
    try:
        audit.repair(view, finding)
    except allocations.PlacementRefused as error:
        return _make_row(finding, 'failed', '%s.' % str(error).rstrip('.'))
    repaired = finding.kind
    if finding.consumer:
        repaired += ' of ' + finding.consumer
    changes.log_change(app, 'Host %s: repaired %s.', finding.host, repaired)
    return _make_row(finding, 'fixed', finding.next_step)


def _make_row(finding, state, remedy=None):
    """Return the row of a Finding, without the name of an instance.

    :param state: such as 'found' or 'fixed'
    :param remedy: what the operator should do; None for ``finding.remedy``
    :returns: tuple with the values of all ``COLUMNS`` but the last one
    """
    if remedy is None:
        remedy = finding.remedy
    return (finding.host, finding.kind, finding.consumer, finding.needed,
            finding.placement, finding.compute, finding.libvirt, state, remedy)
