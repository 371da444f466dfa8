# SPDX-License-Identifier: Apache-2.0

"""How a priority host is recognised, in Placement and in the scheduler.

Source: the high/low-priority co-location design, which marks the aggregate
of such hosts with ``priority_mix=true`` and its flavors with
``priority=true``. An aggregate may have either, with no other value: clouds
use the key ``priority`` for other things too.
"""

AGGREGATE_KEYS = ('priority_mix', 'priority')

#: With the value "false" it keeps new ordinary instances off the hosts.
ORDINARY_KEY = 'priority_ordinary'

#: All keys of aggregate metadata that are read.
KEYS = (*AGGREGATE_KEYS, ORDINARY_KEY)

#: ``[DEFAULT] compute_driver`` of such a host.
DRIVER = 'prio.PriorityLibvirtDriver'

#: Trait of every host that runs it.
TRAIT = 'CUSTOM_CPU_PRIORITY'
#: Trait of those where low-priority instances float on dedicated CPUs too.
TRAIT_MIX = 'CUSTOM_CPU_PRIORITY_MIX'
#: Trait, in the place of the first one, of those that ``nova-prio host
#: disable`` disabled for priority instances. No request needs to know it.
TRAIT_DISABLED = 'CUSTOM_CPU_PRIORITY_DISABLED'
TRAITS = (TRAIT, TRAIT_MIX, TRAIT_DISABLED)


def is_ours(traits):
    """Return whether a host with these traits runs our compute driver."""
    return not {TRAIT, TRAIT_DISABLED}.isdisjoint(traits)


def ours(traits):
    """Return the traits of this package among some, as a sorted list."""
    return sorted(set(traits).intersection(TRAITS))


def traits(mix, is_disabled):
    """Return the list of traits that nova-compute gives to a priority host.

    :param mix: whether low-priority instances float on dedicated CPUs too
    :param is_disabled: whether it is disabled for priority instances
    """
    return [TRAIT] * (not is_disabled) + [TRAIT_MIX] * mix


def is_marked(aggregate):
    """Return whether an aggregate is for priority instances."""
    return any(_says(aggregate.metadata.get(key), 'true')
               for key in AGGREGATE_KEYS)


def keeps_ordinary_off(aggregate):
    """Return whether an aggregate takes no new ordinary instances."""
    return _says(aggregate.metadata.get(ORDINARY_KEY), 'false')


def restricts_requests(aggregate):
    """Return whether requests to Placement require or forbid an aggregate."""
    return is_marked(aggregate) or keeps_ordinary_off(aggregate)


def misread(aggregate):
    """Return the metadata that should be true or false but are neither.

    :returns: dict, key -> value, of ``KEYS``
    """
    found = {key: aggregate.metadata.get(key) for key in KEYS}
    return {key: value for key, value in found.items() if value is not None
            and not (_says(value, 'true') or _says(value, 'false'))}


def _says(value, word):
    return value is not None and value.strip().lower() == word
