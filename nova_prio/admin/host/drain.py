# SPDX-License-Identifier: Apache-2.0

"""End co-location on a host: disable it, empty it, restore its settings.

Placement keeps the progress, as traits of the host: each step can be
interrupted and repeated.
"""

import contextlib
import time

import os_resource_classes as orc

from nova_prio.admin.audit import repairs
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import remaining
from nova_prio.admin.host import state
from nova_prio.admin.host import verify
from nova_prio.placement import allocations
from nova_prio.placement import traits as prio_traits

#: Interval of counting the remaining instances.
INTERVAL_SECONDS = 5


class HostDrain:
    """The way of one host out of co-location.

    ``state`` is the HostState and ``remaining`` the list of
    RemainingInstance, both as of the last :meth:`refresh`.
    """

    def __init__(self, context, client, name, plan=None):
        self._context = context
        self._client = client
        self._name = name
        self.plan = plan

    def refresh(self, must_disable=False):
        """Read the host, disable it if asked, and list who must leave.

        Disable it each time: an operator or an older nova-compute may have
        enabled it.
        """
        self.state = state.read_state(self._context, self._client, self._name)
        if must_disable and self.state.has_our_driver:
            disable(self._context, self._client, self.state.view)
        self.remaining = list(remaining.list_remaining(
            self._context, self.state.view, self.plan))

    def wait(self, timeout_seconds):
        """Keep the host disabled until it is empty or the time is over.

        :returns: iterator of the number of remaining instances
        """
        end = time.monotonic() + timeout_seconds
        while self.remaining and (seconds := end - time.monotonic()) > 0:
            time.sleep(min(INTERVAL_SECONDS, seconds))
            # Placement may be restarted while this waits.
            with contextlib.suppress(allocations.PlacementRefused,
                                     *allocations.CLIENT_ERRORS):
                self.refresh(must_disable=True)
            yield len(self.remaining)

    @property
    def is_configured(self):
        """Whether nova-compute still runs with the options of the plan."""
        report = self.state.view.report
        had_our_driver = self.plan and prio_traits.has_our_driver(
            _get_old_traits(self.plan))
        if had_our_driver and report:
            old_options = self.get_old_options()
            return not all(
                verify.are_equal(name, old_options.get(name, ''), value)
                for name, value in verify.get_options(report).items())
        return self.state.has_our_driver

    def get_old_options(self):
        """Return the options before the plan, dict, name -> text."""
        return {} if self.plan is None else {
            name: value for (part, name), value in self.plan.now.items()
            if part == plan_format.OPTION}

    def get_old_inventories(self):
        """Return the inventories with the allocation ratios of the plan.

        :returns: (dict, resource class -> inventory, list of the classes that
            differ from the plan in more than the ratio)
        """
        present = self.state.view.inventories
        wanted, different = dict(present), []
        for name in (orc.VCPU, orc.PCPU, orc.MEMORY_MB) if self.plan else ():
            old = self.plan.now.get((plan_format.INVENTORY, name)) or None
            new = present.get(name)
            if old and new and old == {
                    **new, 'allocation_ratio': old['allocation_ratio']}:
                wanted[name] = old
            elif old != new:
                different.append(name)
        return wanted, different

    def restore(self, inventories):
        """Give the host the traits of the plan, and these inventories.

        :raises PlacementRefused: if Placement refuses a change
        """
        view = self.state.view
        _set_traits(self._context, self._client, view, _get_old_traits(
            self.plan) if self.plan else ())
        if inventories != view.inventories:
            repairs.replace_provider_data(
                view, 'inventories', inventories, self._context, self._client)


def _get_old_traits(plan):
    return plan.now[plan_format.TRAITS, plan_format.TRAITS].split()


def _set_traits(context, client, view, wanted):
    """Give a host the wanted traits of this package, and remove the others."""
    def change(present):
        changed = (set(present) - set(prio_traits.ALL)).union(wanted)
        return present if changed == set(present) else sorted(changed)

    allocations.update_provider(
        context, client, view.node.uuid, 'traits', change)


def disable(context, client, view):
    """Disable a host for priority instances, in Placement.

    :raises PlacementRefused: if Placement refuses the change
    """
    _set_traits(context, client, view, [
        prio_traits.CPU_PRIORITY_DISABLED, *prio_traits.list_for_host(
            prio_traits.CPU_PRIORITY_MIX in view.traits, is_disabled=True)])


def enable(context, client, view):
    """Enable a host for priority instances, in Placement.

    :raises PlacementRefused: if Placement refuses the change
    """
    _set_traits(context, client, view, prio_traits.list_for_host(
        prio_traits.CPU_PRIORITY_MIX in view.traits, is_disabled=False))
