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


def is_marked(aggregate):
    """Return whether an aggregate is for priority instances."""
    return any(_says(aggregate.metadata.get(key), 'true')
               for key in AGGREGATE_KEYS)


def excludes_ordinary(aggregate):
    """Return whether an aggregate takes no new ordinary instances."""
    return _says(aggregate.metadata.get(ORDINARY_KEY), 'false')


def restricts_requests(aggregate):
    """Return whether requests to Placement require or forbid an aggregate."""
    return is_marked(aggregate) or excludes_ordinary(aggregate)


def find_misread_metadata(aggregate):
    """Return the metadata that should be true or false but are neither.

    :returns: dict, key -> value, of ``KEYS``
    """
    found = {key: aggregate.metadata.get(key) for key in KEYS}
    return {key: value for key, value in found.items() if value is not None
            and not (_says(value, 'true') or _says(value, 'false'))}


def _says(value, word):
    return value is not None and value.strip().lower() == word
