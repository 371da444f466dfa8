# SPDX-License-Identifier: Apache-2.0

"""The aggregate metadata that mark hosts for priority instances.

An aggregate of such hosts has ``priority_mix=true`` or ``priority=true``. It
may have other values: clouds use the key ``priority`` for other purposes too.
"""

import dataclasses

AGGREGATE_KEYS = ('priority_mix', 'priority')
#: With the value "false", the hosts take no new ordinary instances.
ORDINARY_KEY = 'priority_ordinary'
#: Keys that override the multipliers of weighers, options of this name.
MULTIPLIER_KEYS = (
    'priority_weight_multiplier', 'low_supply_weight_multiplier')
#: All keys of aggregate metadata that this package reads as booleans.
KEYS = AGGREGATE_KEYS + (ORDINARY_KEY,)


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """The attributes of a nova.objects.Aggregate that this package reads.

    A nova.objects.Aggregate may take its place.
    """

    name: str
    metadata: dict[str, str]


def allows_priority(aggregate: Aggregate) -> bool:
    """Return whether the metadata mark an aggregate for priority instances."""
    return any(_equals(aggregate.metadata.get(key), 'true')
               for key in AGGREGATE_KEYS)


def excludes_ordinary(aggregate: Aggregate) -> bool:
    """Return whether an aggregate takes no new ordinary instances."""
    return _equals(aggregate.metadata.get(ORDINARY_KEY), 'false')


def restricts_requests(aggregate: Aggregate) -> bool:
    """Return whether requests to Placement require or forbid an aggregate.

    Those of priority instances require aggregates that allow a priority.
    Those of other instances forbid aggregates that exclude them.
    """
    return allows_priority(aggregate) or excludes_ordinary(aggregate)


def find_misread_metadata(aggregate: Aggregate) -> dict[str, str]:
    """Return the metadata that are neither true nor false, but should be.

    These are the keys that this package reads as booleans, such as
    ``priority_mix``.

    :returns: dict, key of the metadata -> value
    """
    misread = {}
    for key in KEYS:
        value = aggregate.metadata.get(key)
        if (value is not None and not _equals(value, 'true') and
                not _equals(value, 'false')):
            misread[key] = value
    return misread


def _equals(value: str | None, word: str) -> bool:
    """Return whether a value is the word, in upper or lower case."""
    return value is not None and value.strip().lower() == word
