# SPDX-License-Identifier: Apache-2.0

"""The traits by which requests find priority hosts in Placement."""

from collections import abc

#: Trait of every host that runs the compute driver of this package.
CPU_PRIORITY = 'CUSTOM_CPU_PRIORITY'
#: Trait of mix hosts, whose low-priority instances may also run on the
#: dedicated CPUs.
CPU_PRIORITY_MIX = 'CUSTOM_CPU_PRIORITY_MIX'
#: Replaces ``CPU_PRIORITY`` on a host that ``nova-prio host disable`` disabled
#: for priority instances. No request requires this trait.
CPU_PRIORITY_DISABLED = 'CUSTOM_CPU_PRIORITY_DISABLED'
ALL = (CPU_PRIORITY, CPU_PRIORITY_MIX, CPU_PRIORITY_DISABLED)


def has_our_driver(traits: abc.Iterable[str]) -> bool:
    """Return whether a host with these traits runs our compute driver."""
    return not {CPU_PRIORITY, CPU_PRIORITY_DISABLED}.isdisjoint(traits)


def select_ours(traits: abc.Iterable[str]) -> list[str]:
    """Return the traits of this package among the given ones, sorted."""
    return sorted(set(traits).intersection(ALL))


def list_for_host(mix: bool, is_disabled: bool) -> list[str]:
    """Return the traits of a host, without ``CPU_PRIORITY_DISABLED``.

    Only the command ``nova-prio host disable`` sets that trait.

    :param mix: whether the low-priority instances of the host may also run on
        its dedicated CPUs
    :param is_disabled: whether the host is disabled for priority instances
    """
    traits = []
    if not is_disabled:
        traits.append(CPU_PRIORITY)
    if mix:
        traits.append(CPU_PRIORITY_MIX)
    return traits
