# SPDX-License-Identifier: Apache-2.0

"""Remove co-location from a host: disable it, wait, restore its settings.

Placement keeps the progress, as traits of the host: each step can be
interrupted and repeated.
"""

from collections import abc
import contextlib
import dataclasses
import threading
import time

from nova import context as nova_context
from nova.scheduler.client import report as report_client
import os_resource_classes as orc

from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import repairs
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import remaining
from nova_prio.admin.host import state
from nova_prio.model import inventory
from nova_prio.model import traits as prio_traits
from nova_prio.placement import allocations

#: Interval of counting the remaining instances.
INTERVAL_SECONDS = 5


@dataclasses.dataclass
class Removal:
    """The steps that remove co-location from one host.

    ``plan`` is the plan to undo, or None if it is lost. ``log_change`` is
    called after each change, with a format and its arguments. ``state`` and
    ``remaining`` are as of the last :meth:`refresh`.
    """

    context: nova_context.RequestContext
    client: report_client.SchedulerReportClient
    name: str
    plan: plan_format.SavedPlan | None
    log_change: abc.Callable[..., None]

    def refresh(self, must_disable: bool = False) -> None:
        """Read the host and the instances that must leave; maybe disable it.

        Co-location is low-priority guests on the dedicated CPUs of a host,
        beside pinned ones. These instances must leave before it ends.

        Set ``state``, the HostView, and ``remaining``, these instances.

        :param must_disable: whether to disable the host for priority
            instances first, even if that was done before: an operator or an
            older nova-compute may have enabled it again
        """
        self.state = state.read_state(self.context, self.client, self.name)
        # A host with another driver takes no priority instance.
        if must_disable and self.state.has_our_driver:
            has_changed = set_disabled(
                self.context, self.client, self.state, is_disabled=True)
            if has_changed:
                self.log_change('Host %s: disabled for priority instances, to '
                                'remove co-location.', self.name)
        self.remaining = list(remaining.list_remaining(
            self.context, self.state, self.plan))

    def wait(self, timeout_seconds: float,
             interrupted: threading.Event) -> abc.Iterator[int]:
        """Keep the host disabled until no instance remains, or the timeout.

        The instances that remain are those that must leave the host before
        co-location ends.

        :param interrupted: ends the wait if it is set
        :returns: iterator of the number of remaining instances
        """
        end = time.monotonic() + timeout_seconds
        while self.remaining:
            seconds_left = end - time.monotonic()
            if seconds_left <= 0:
                return
            if interrupted.wait(min(INTERVAL_SECONDS, seconds_left)):
                return
            # An operator may have enabled the host: disable it again. If
            # Placement does not answer, as during a restart, the next turn of
            # the loop tries again.
            with contextlib.suppress(allocations.PlacementRefused,
                                     *allocations.CLIENT_ERRORS):
                self.refresh(must_disable=True)
            yield len(self.remaining)

    @property
    def has_planned_options(self) -> bool:
        """Whether nova-compute still runs with the options of the plan.

        ``report.cpus`` has the CPU sets, the CPU allocation ratio and mix, the
        option cpu_priority_mix_enable. Only the driver of this package writes
        a report. If the plan is to be undone, nova-compute must first have its
        old options. Without a plan, which may be lost, tell whether
        nova-compute still runs this driver.
        """
        report = self.state.report
        if report and self.plan and prio_traits.has_our_driver(
                self.plan.old_traits):
            # The driver was the same before the plan: compare its options.
            return report.cpus != self.plan.old_cpus
        # The plan changed the driver, or nothing else can be compared.
        return self.state.has_our_driver

    def get_old_inventories(
            self) -> tuple[inventory.Inventories, list[str]]:
        """Return the inventories with the ratios from before the plan.

        Undo the ratio of an inventory only if all else in it is as before the
        plan.

        :returns: (resource class -> inventory; list of the resource classes
            whose inventory also differs in a number other than the ratio)
        """
        inventories = dict(self.state.inventories)
        differing: list[str] = []
        if self.plan is None:
            return inventories, differing
        for name in orc.VCPU, orc.PCPU, orc.MEMORY_MB:
            # {} if the host did not have the resource class then, or does not
            # have it now.
            old = self.plan.old_inventories.get(name, {})
            present = inventories.get(name, {})
            with_old_ratio = dict(
                present, allocation_ratio=old.get('allocation_ratio'))
            # If so, nothing but the ratio differs.
            if with_old_ratio == old:
                inventories[name] = old
            elif present != old:
                differing.append(name)
        return inventories, differing

    def restore(self, inventories: inventory.Inventories) -> None:
        """Give the host its traits from before the plan, and inventories.

        :param inventories: resource class -> inventory, the first result of
            :meth:`get_old_inventories`
        :raises PlacementRefused: if Placement refuses a change
        """
        view = self.state
        old_traits = self.plan.old_traits if self.plan else []
        # This returns whether the host had other traits of this package.
        if _set_traits(self.context, self.client, view, old_traits):
            self.log_change(
                'Host %s: the traits of this package are as before the plan '
                '(%s).', self.name, ' '.join(old_traits) or 'none')
        # They differ from the present ones only in allocation ratios.
        if inventories != view.inventories:
            repairs.replace_provider_data(
                view, 'inventories', view.inventories,
                inventories, self.context, self.client)
            self.log_change(
                'Host %s: the allocation ratios are as before the plan.',
                self.name)


def _set_traits(
        context: nova_context.RequestContext,
        client: report_client.SchedulerReportClient, view: host_view.HostView,
        wanted: abc.Collection[str]) -> bool:
    """Give a host the wanted traits of this package, and remove the others.

    :param wanted: names of the traits
    :returns: whether this changed the traits of the host
    :raises PlacementRefused: if Placement refuses the change
    """
    is_changed = False

    def change(present: list[str]) -> list[str]:
        """Return the traits to write, or ``present`` to write nothing.

        update_provider calls this again if another client has changed the
        host meanwhile.
        """
        nonlocal is_changed
        changed = set(present).difference(prio_traits.ALL).union(wanted)
        is_changed = changed != set(present)
        return sorted(changed) if is_changed else present

    allocations.update_provider(
        context, client, view.node.uuid, 'traits', change)
    return is_changed


def set_disabled(
        context: nova_context.RequestContext,
        client: report_client.SchedulerReportClient, view: host_view.HostView,
        is_disabled: bool) -> bool:
    """Disable or enable a host for priority instances.

    A trait allows priority instances on the host. Remove it to disable the
    host, and set another trait that keeps nova-compute from adding it again.

    :returns: whether this changed the traits of the host
    :raises PlacementRefused: if Placement refuses the change
    """
    # The trait of a mix host stays as it is.
    traits = prio_traits.list_for_host(
        prio_traits.CPU_PRIORITY_MIX in view.traits, is_disabled=is_disabled)
    # Only an operator sets this trait of a disabled host: list_for_host, which
    # nova-compute uses too, does not return it.
    if is_disabled:
        traits.append(prio_traits.CPU_PRIORITY_DISABLED)
    return _set_traits(context, client, view, traits)
