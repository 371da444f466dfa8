# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio host disable`` and ``nova-prio host enable``."""

import functools
import operator
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


class DisableHost(report.Report):
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
        """Disable hosts, wait for instances to leave, and restore settings.

        A disabled host takes no priority instances. After these steps, the
        host no longer has high- and low-priority instances side by side, which
        is co-location.

        :returns: exit status
        """
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        # For several hosts, --plan must be a directory with their plans.
        host_selection.check_plan(parsed_args)
        changes.confirm(
            self.app, parsed_args, 'Remove co-location from %s?'
            % host_selection.format_names(hosts))
        # If there are several hosts, Ctrl-C sets this, which ends their waits.
        interrupted = threading.Event()
        remove = functools.partial(
            self._remove, parsed_args, controller.make_placement_client(),
            interrupted)
        return host_selection.act_on_hosts(
            self, context, parsed_args, hosts, remove,
            amount_column='Instances', interrupted=interrupted)

    def _remove(self, parsed_args, placement, interrupted, context, host):
        """Remove co-location from a host: disable it, wait, restore it.

        Co-location is that high- and low-priority instances share the host.
        If the command is for a single host, list the instances that must leave
        the host.

        :param placement: SchedulerReportClient
        :param interrupted: threading.Event that ends the wait
        :param host: name of the host
        :returns: HostResult
        """
        from nova_prio.admin.host import removal as host_removal
        is_one_host = host_selection.is_one_host(parsed_args)
        if is_one_host:
            report.check_columns(parsed_args, COLUMNS)
        removal = host_removal.Removal(
            context=context, client=placement, name=host,
            plan=host_selection.load_plan(parsed_args, host),
            log_change=functools.partial(changes.log_change, self.app))
        # Read the host and, if it may be changed, disable it for priority
        # instances first.
        removal.refresh(must_disable=not parsed_args.dry_run)
        # ``remaining`` lists the instances that must leave the host.
        must_wait = removal.remaining and not parsed_args.dry_run
        if is_one_host:
            # UUID of an instance -> name of a host on which it fits.
            places = _find_destinations(context, placement, removal.remaining)
            self.show(parsed_args, COLUMNS, [
                each.format_row(places.get(each.uuid, ''))
                for each in removal.remaining])
        elif must_wait:
            self.app.LOG.warning(
                'Host %s: instances that must leave: %d. To list them, run '
                '"nova-prio host disable %s --dry-run".', host,
                len(removal.remaining), host)
        if must_wait:
            _wait(self.app, removal, parsed_args.timeout, interrupted,
                  shows_progress=is_one_host)
        return _end(removal, parsed_args.dry_run)


def _find_destinations(context, placement, remaining):
    """Return a host for each instance that can be moved now.

    :param remaining: list of ``remaining.RemainingInstance``
    :returns: dict, UUID -> name of a host
    """
    from nova_prio.admin.host import remaining as remaining_instances
    from nova_prio.admin.moves import verdicts
    # These instances have low priority, or pins outside of the CPUs that were
    # dedicated before the plan of "host plan", and will be again. Nova cannot
    # migrate the others: they are being created, their resize is not
    # confirmed, or they are unknown.
    reasons = remaining_instances.LOW, remaining_instances.PINNED_OUTSIDE
    movable = [each for each in remaining if each.reason in reasons]
    # More instances fit if the largest come first.
    movable.sort(key=operator.attrgetter('instance.vcpus'), reverse=True)
    # The values None let each instance use all hosts.
    return verdicts.Verdicts(context, placement).place_all(
        dict.fromkeys(each.uuid for each in movable))


def _wait(app, removal, timeout_seconds, interrupted, shows_progress):
    """Wait until no instance remains, an interrupt, or the timeout.

    :param removal: ``removal.Removal``; its ``wait`` yields the number of the
        remaining instances again and again, and keeps the host disabled
    :param interrupted: threading.Event that ends the wait. If several hosts
        are worked on, in threads, the main thread sets it after Ctrl-C. For a
        single host, this runs in the main thread, where Ctrl-C raises
        KeyboardInterrupt.
    """
    # None shows the progress on a terminal only.
    disable = None if shows_progress else True
    try:
        with tqdm.tqdm(total=len(removal.remaining), unit=' instances',
                       desc='have left', leave=False,
                       disable=disable) as progress:
            for number_left in removal.wait(timeout_seconds, interrupted):
                # An instance may still arrive during the wait.
                progress.total = max(progress.total, number_left)
                progress.n = progress.total - number_left
                progress.refresh()
    except KeyboardInterrupt:
        # Only the wait ends: the caller goes on with the instances that are
        # left. Begin a line after the "^C" of the terminal.
        app.stderr.write('\n')


def _end(removal, dry_run):
    """Restore the host, if nothing has to be done before.

    To restore it is to give it the traits and the allocation ratios that it
    had before it took instances of both priorities.

    :param removal: ``removal.Removal``, the steps to this for one host
    :returns: HostResult with the last line of the command
    """
    removal.refresh()
    host, number_left = removal.state.name, len(removal.remaining)
    if number_left:
        change = 'the host is disabled for priority instances'
        if dry_run:
            change = 'nothing was changed'
        text = (
            'Instances that must leave %s: %d. Act on each as its reason says '
            '(migrate, delete, confirm), and run this command again; %s.'
            % (host, number_left, change))
        if not removal.state.is_up:
            text += ' Its nova-compute is down: start it first.'
        return host_selection.HostResult(
            MUST_LEAVE, amount=number_left, next_step=text,
            status=report.FOUND)
    # A nova-compute that still runs with the options of the plan would report
    # the traits again, so restore them only when it has other options. Without
    # --plan, these are unknown: has_planned_options is then true as long as
    # nova-compute runs the driver of this package.
    if not removal.has_planned_options:
        return _restore(removal, dry_run)
    # A dry run has not disabled the host for priority instances, so that such
    # instances may arrive while the operator restores the options.
    step = 'run this command without --dry-run.'
    if not dry_run:
        step = ('restore the options of nova-compute%s, restart it, and run '
                'this command again.' % _format_options(removal.plan))
    text = 'No instance has to leave %s. Next: %s' % (host, step)
    # The allocations are consumer -> resource class -> amount. That of a
    # migration that waits for its confirmation also counts: its instance is on
    # another host, and a revert needs the CPUs.
    if removal.plan is None and any(
            orc.PCPU in resources
            for resources in removal.state.allocations.values()):
        text += (' The host has pinned instances, or moves of them to confirm '
                 'or revert, which need the dedicated CPUs: use --plan to '
                 'list the ones that must leave.')
    return host_selection.HostResult(
        RESTORE_OPTIONS, amount=0, next_step=text, status=report.FOUND)


def _restore(removal, dry_run):
    """Restore the traits and allocation ratios from before the plan.

    The traits that this package has added are removed. No instance has to
    leave the host any more, so the result counts none.

    :param removal: ``removal.Removal``
    :returns: HostResult
    """
    host = removal.state.name
    # The inventories with their old ratios, and the resource classes in which
    # more than the ratio differs from the time before the plan.
    inventories, differing_classes = removal.get_old_inventories()
    ratios = ', '.join(
        '%s %s' % (name, inventories[name]['allocation_ratio'])
        for name in (orc.MEMORY_MB, orc.VCPU) if name in inventories)
    if dry_run:
        text = ('Nothing was changed. This command would remove the traits '
                'from %s, and set its allocation ratios to %s.'
                % (host, ratios))
        return host_selection.HostResult(
            DRY_RUN, amount=0, next_step=text, status=report.FOUND)
    removal.restore(inventories)
    if differing_classes:
        text = ('Traits and allocation ratios are restored, but nova-compute '
                'reports other amounts of %s than before the plan: restore '
                'its options%s, restart it, and run this command again.' % (
                    ', '.join(differing_classes),
                    _format_options(removal.plan)))
        return host_selection.HostResult(
            RESTORE_OPTIONS, amount=0, next_step=text, status=report.FOUND)
    text = '%s is restored. Its allocation ratios are %s' % (host, ratios)
    if removal.plan is None:
        # The ratios are the defaults.
        text += '; use --plan to restore the old ones'
    # A restored host that still runs the driver of this package did so before
    # the plan, too. It was in the aggregate for priority instances then, and
    # must stay there.
    is_left_in_aggregate = (removal.state.allows_priority and
                            not removal.state.has_our_driver)
    if is_left_in_aggregate:
        text += ('. Remove it from the host aggregate for priority '
                 'instances.')
    else:
        text += '. There is nothing to do.'
    return host_selection.HostResult(RESTORED, amount=0, next_step=text)


def _format_options(plan):
    """Return the options from before a plan in parentheses.

    :param plan: ``plan_format.SavedPlan``, or None
    :returns: '' without a plan
    """
    if plan is None:
        return ''
    options = []
    for name, value in plan.old_options.items():
        text = value or '<not set>'
        # The ratio of the plan is that in Placement. Whether nova.conf set it
        # is unknown.
        if name.endswith('_ratio'):
            text += ' or <not set> as before'
        options.append('%s = %s' % (name, text))
    return ' (%s)' % ', '.join(options)


class EnableHost(report.Report):
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
        return host_selection.act_on_hosts(
            self, context, parsed_args, hosts, enable,
            amount_column='Instances')


def _enable(app, dry_run, placement, context, host):
    """Enable a host for priority instances; return its HostResult."""
    from nova_prio.admin.host import removal
    from nova_prio.admin.host import state
    view = state.read_state(context, placement, host)
    instance_count = len(view.instances)
    if not view.has_our_driver:
        raise exceptions.CommandError(
            "HOST is '%s', whose nova-compute reports no priority CPUs; "
            'allowed are hosts with the compute driver of nova-prio.' % host)
    if dry_run:
        text = ('Nothing was changed. This command would enable %s for '
                'priority instances.' % host)
        return host_selection.HostResult(
            DRY_RUN, amount=instance_count, next_step=text)
    # The traits of the host in Placement say whether it is disabled.
    is_changed = removal.set_disabled(
        context, placement, view, is_disabled=False)
    if is_changed:
        changes.log_change(
            app, 'Host %s: enabled for priority instances.', host)
    if not view.is_up:
        app.LOG.warning('The nova-compute of %s is down: start it.', host)
    text = ('%s is enabled for priority instances. Run "nova-prio host verify '
            '%s" to check its state.' % (host, host))
    return host_selection.HostResult(
        ENABLED, amount=instance_count, next_step=text)
