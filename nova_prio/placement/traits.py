# SPDX-License-Identifier: Apache-2.0

"""The traits by which requests find priority hosts in Placement."""

#: Trait of every host that runs the compute driver of this package.
TRAIT = 'CUSTOM_CPU_PRIORITY'
#: Trait of mix hosts.
TRAIT_MIX = 'CUSTOM_CPU_PRIORITY_MIX'
#: Replaces TRAIT on a host that ``nova-prio host disable`` disabled for
#: priority instances. No request requires this trait.
TRAIT_DISABLED = 'CUSTOM_CPU_PRIORITY_DISABLED'
TRAITS = (TRAIT, TRAIT_MIX, TRAIT_DISABLED)


def has_our_driver(traits):
    """Return whether a host with these traits runs our compute driver."""
    return not {TRAIT, TRAIT_DISABLED}.isdisjoint(traits)


def select_ours(traits):
    """Return the traits of this package among the given ones, sorted."""
    return sorted(set(traits).intersection(TRAITS))


def list_for_host(mix, is_disabled):
    """Return the list of traits of a host.

    :param is_disabled: whether the host is disabled for priority instances
    """
    return [TRAIT] * (not is_disabled) + [TRAIT_MIX] * mix
