# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How a priority host is recognised, in Placement and in the scheduler.

Source: the high/low-priority co-location design, which marks the aggregate
of such hosts with ``priority_mix=true`` and its flavors with
``priority=true``; either is accepted on an aggregate, and no other value, for
``priority`` is a key that clouds use for other things too.
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
#: Trait of those that ``nova-prio host disable`` keeps priority instances off,
#: which have the first one no longer: no request needs to know of this one.
TRAIT_DISABLED = 'CUSTOM_CPU_PRIORITY_DISABLED'
TRAITS = (TRAIT, TRAIT_MIX, TRAIT_DISABLED)


def is_ours(traits):
    """Return whether the traits of a host are those of our compute driver.

    :param traits: iterable of names
    """
    return not {TRAIT, TRAIT_DISABLED}.isdisjoint(traits)


def ours(traits):
    """Return those traits of a host that are of this package, a sorted list.

    :param traits: iterable of names
    """
    return sorted(set(traits).intersection(TRAITS))


def traits(mix, is_disabled):
    """Return the traits that nova-compute gives to a priority host, a list.

    :param mix: whether low-priority instances float on dedicated CPUs too
    :param is_disabled: whether priority instances are kept off
    """
    return [TRAIT] * (not is_disabled) + [TRAIT_MIX] * mix


def is_marked(aggregate):
    """Return whether an aggregate is one for priority instances.

    :param aggregate: nova.objects.Aggregate
    """
    metadata = aggregate.metadata
    return any(_says(metadata.get(key), 'true') for key in AGGREGATE_KEYS)


def keeps_ordinary_off(aggregate):
    """Return whether an aggregate is none for new ordinary instances.

    :param aggregate: nova.objects.Aggregate
    """
    return _says(aggregate.metadata.get(ORDINARY_KEY), 'false')


def restricts_requests(aggregate):
    """Return whether Placement is asked for hosts inside or outside of it.

    :param aggregate: nova.objects.Aggregate
    """
    return is_marked(aggregate) or keeps_ordinary_off(aggregate)


def misread(aggregate):
    """Return the metadata of an aggregate that say neither true nor false.

    :param aggregate: nova.objects.Aggregate
    :returns: dict, key -> value, of the keys above
    """
    found = {key: aggregate.metadata.get(key)
             for key in KEYS}
    return {key: value for key, value in found.items() if value is not None
            and not (_says(value, 'true') or _says(value, 'false'))}


def _says(value, word):
    return value is not None and value.strip().lower() == word
