# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio host disable`` and ``nova-prio host enable``."""

import functools
import threading

import os_resource_classes as orc
from osc_lib import exceptions
import tqdm

from nova_prio.cmd import changes
from nova_prio.cmd import controller
from nova_prio.cmd import host_selection
from nova_prio.cmd import report

COLUMNS = ('Instance', 'Name', 'Priority', 'VCPUs', 'Memory MB', 'Reason',
           'Fits On')
#: States of hosts; the first two have steps that the operator must do.
MUST_LEAVE, RESTORE_OPTIONS = 'instances must leave', 'restore options'
RESTORED, ENABLED, DRY_RUN = 'restored', 'enabled', 'not changed'


class Disable(report.Report):
    """Remove co-location from hosts, step by step.

    This is not for maintenance: "host drain" empties a host that keeps
    co-location. First, disable the host for priority instances, list the
    instances that must leave with a host that each fits on, and wait for them:
    migrate or delete them. Then restore the options of nova-compute, restart
    nova-compute, and run this command again: it removes the traits from the
    host and, with --plan, restores its allocation ratios. The command can be
    interrupted and repeated at any time; "host enable" undoes the first step.
    For several hosts, list one line for each host. It reads Nova's databases:
    run it where nova-manage runs. Exit status: 0 if all is restored, 3 if the
    operator must act, 1 if a host cannot be changed.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        host_selection.add_plan_option(parser)
        host_selection.add_options(parser)
        changes.add_options(parser)
        changes.add_timeout(
            parser, 'wait as long as this for the instances that must leave '
            'each host; 0 not to wait')
        return parser

    def act(self, context, parsed_args):
        """List the instances, or the hosts; return the exit status."""
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        host_selection.check_plan(parsed_args)
        changes.confirm(
            self.app, parsed_args, 'Remove co-location from %s?'
            % host_selection.format_names(hosts))
        placement = controller.make_placement_client()
        interrupted = threading.Event()
        if not host_selection.is_one_host(parsed_args):
            return host_selection.show_results(
                self, parsed_args, hosts, functools.partial(
                    _remove, self.app, parsed_args, placement, interrupted),
                'Instances', interrupted)
        report.check_columns(parsed_args, COLUMNS)
        removal = _begin(self.app, parsed_args, placement, context, hosts[0])
        places = _find_destinations(context, placement, removal.remaining)
        self.show(parsed_args, COLUMNS, [
            (each.uuid, *each.describe(), each.reason,
             places.get(each.uuid, '')) for each in removal.remaining])
        if removal.remaining and not parsed_args.dry_run:
            _wait(self.app, removal, parsed_args.timeout, interrupted)
        result = _end(removal, parsed_args.dry_run)
        return self.end(result.status, result.next_step)


def _find_destinations(context, placement, remaining):
    """Return a host for each instance that can be moved now.

    :param remaining: list of ``remaining.Remaining``
    :returns: dict, UUID -> name of a host
    """
    from nova_prio.admin.host import remaining as reasons
    from nova_prio.admin.moves import verdicts
    # Nova cannot migrate an instance that is being created, or whose resize
    # is not confirmed.
    movable = [each for each in remaining if each.instance and
               each.reason not in (reasons.CREATED, reasons.UNCONFIRMED)]
    # More instances fit if the largest come first.
    movable.sort(key=lambda each: -each.instance.vcpus)
    return verdicts.Verdicts(context, placement).place_all(
        each.uuid for each in movable)


def _begin(app, parsed_args, placement, context, host):
    """Return the Removal of a host, which this disables if it must."""
    from nova_prio.admin.host import removal
    begun = removal.Removal(
        context, placement, host, host_selection.load_plan(parsed_args, host),
        functools.partial(changes.log_change, app))
    begun.refresh(must_disable=not parsed_args.dry_run)
    return begun


def _remove(app, parsed_args, placement, interrupted, context, host):
    """Do all steps on one of several hosts; return its HostResult.

    :param interrupted: threading.Event that ends the wait
    """
    removal = _begin(app, parsed_args, placement, context, host)
    if removal.remaining and not parsed_args.dry_run:
        app.LOG.warning(
            'Host %s: instances that must leave: %d. To list them, run '
            '"nova-prio host disable %s --dry-run".', host,
            len(removal.remaining), host)
        for _ in removal.wait(parsed_args.timeout, interrupted):
            pass
    return _end(removal, parsed_args.dry_run)


def _wait(app, removal, timeout_seconds, interrupted):
    """Wait until no instance remains, an interrupt, or the timeout."""
    try:
        # disable=None shows the progress on a terminal only.
        with tqdm.tqdm(total=len(removal.remaining), unit=' instances',
                       desc='have left', leave=False,
                       disable=None) as progress:
            for remaining in removal.wait(timeout_seconds, interrupted):
                # An instance may still arrive during the wait.
                progress.total = max(progress.total, remaining)
                progress.n = progress.total - remaining
                progress.refresh()
    except KeyboardInterrupt:
        app.stderr.write('\n')


def _end(removal, dry_run):
    """Restore the host, if nothing has to be done before.

    :returns: HostResult with the last line of the command
    """
    removal.refresh()
    host, remaining = removal.state.name, len(removal.remaining)
    if remaining:
        change = 'the host is disabled for priority instances'
        if dry_run:
            change = 'nothing was changed'
        text = (
            'Instances that must leave %s: %d. Act on each as its reason says '
            '(migrate, delete, confirm), and run this command again; %s.'
            % (host, remaining, change))
        if not removal.state.is_up:
            text += ' Its nova-compute is down: start it first.'
        return host_selection.HostResult(
            MUST_LEAVE, remaining, text, report.FOUND)
    if not removal.has_planned_options:
        return _restore(removal, dry_run)
    step = 'run this command without --dry-run.'
    if not dry_run:
        step = ('restore the options of nova-compute%s, restart it, and run '
                'this command again.' % _format_options(removal.plan))
    text = 'No instance has to leave %s. Next: %s' % (host, step)
    # The allocation of a migration that waits for its confirmation also
    # counts: its instance is on another host, and a revert needs the CPUs.
    if removal.plan is None and any(
            orc.PCPU in resources
            for resources in removal.state.allocations.values()):
        text += (' The host has pinned instances, or moves of them to confirm '
                 'or revert, which need the dedicated CPUs: use --plan to '
                 'list the ones that must leave.')
    return host_selection.HostResult(
        RESTORE_OPTIONS, remaining, text, report.FOUND)


def _restore(removal, dry_run):
    """Restore traits and allocation ratios; return the HostResult."""
    host = removal.state.name
    inventories, differing_classes = removal.get_old_inventories()
    ratios = ', '.join(
        '%s %s' % (name, inventories[name]['allocation_ratio'])
        for name in ('MEMORY_MB', 'VCPU') if name in inventories)
    if dry_run:
        return host_selection.HostResult(
            DRY_RUN, 0, 'Nothing was changed. This command would remove the '
            'traits from %s, and set its allocation ratios to %s.'
            % (host, ratios), report.FOUND)
    removal.restore(inventories)
    if differing_classes:
        return host_selection.HostResult(
            RESTORE_OPTIONS, 0, 'Traits and allocation ratios are restored, '
            'but nova-compute reports other amounts of %s than before the '
            'plan: restore its options%s, restart it, and run this command '
            'again.' % (', '.join(differing_classes),
                        _format_options(removal.plan)), report.FOUND)
    # Without the plan, the ratios are the defaults.
    text = '%s is restored. Its allocation ratios are %s%s. ' % (
        host, ratios, '' if removal.plan else
        '; use --plan to restore the old ones')
    # If the host still runs our driver, it ran it before the plan, too.
    if removal.state.allows_priority and (
            not removal.state.has_our_driver):
        text += 'Remove it from the host aggregate for priority instances.'
    else:
        text += 'There is nothing to do.'
    return host_selection.HostResult(RESTORED, 0, text)


def _format_options(plan):
    """Return the options before a SavedPlan in parentheses, '' without it."""
    return ' (%s)' % ', '.join(
        '%s = %s' % (name, value or '<not set>')
        for name, value in plan.old_options.items()) if plan else ''


class Enable(report.Report):
    """Enable hosts for priority instances again, after "host disable".

    For several hosts, list one line for each host. This is not the end of
    maintenance: for that, run "host return".
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        host_selection.add_options(parser)
        changes.add_options(parser)
        return parser

    def act(self, context, parsed_args):
        """Enable the hosts, list several; return the exit status."""
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        changes.confirm(
            self.app, parsed_args, 'Enable %s for priority instances?'
            % host_selection.format_names(hosts))
        enable = functools.partial(
            _enable, self.app, parsed_args.dry_run,
            controller.make_placement_client())
        if not host_selection.is_one_host(parsed_args):
            return host_selection.show_results(
                self, parsed_args, hosts, enable, 'Instances')
        return self.end(report.CLEAN, enable(context, hosts[0]).next_step)


def _enable(app, dry_run, placement, context, host):
    """Enable a host; return its HostResult."""
    from nova_prio.admin.host import removal
    from nova_prio.admin.host import state
    view = state.read_state(context, placement, host)
    instances = len(view.instances)
    if not view.has_our_driver:
        raise exceptions.CommandError(
            "HOST is '%s', whose nova-compute reports no priority CPUs; "
            'allowed are hosts with the compute driver of nova-prio.' % host)
    if dry_run:
        return host_selection.HostResult(
            DRY_RUN, instances, 'Nothing was changed. This command would '
            'enable %s for priority instances.' % host)
    if removal.set_disabled(context, placement, view, is_disabled=False):
        changes.log_change(
            app, 'Host %s: enabled for priority instances.', host)
    if not view.is_up:
        app.LOG.warning('The nova-compute of %s is down: start it.', host)
    return host_selection.HostResult(
        ENABLED, instances, '%s is enabled for priority instances. Run '
        '"nova-prio host verify %s" to check its state.' % (host, host))
