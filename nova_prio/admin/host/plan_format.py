# SPDX-License-Identifier: Apache-2.0

"""The rows in which a plan is written, shown and read again."""

import json
import typing

from nova import exception

from nova_prio.model import capacity
from nova_prio.objects import host_report

#: Parts of a plan. Of the first three there is one row for each name, whether
#: it changes or not.
OPTION, INVENTORY, TRAITS = 'option', 'inventory', 'traits'
ROOM, ALLOCATION = 'room', 'allocation'
OUTSIDE, WHOLE_CORES, OVER = 'pinned outside', 'whole cores', 'over'
FLOATS, JOINED, HOST = 'floats', 'joined', 'host'
STEP, VERDICT = 'step', 'verdict'

READY, NOT_READY = 'ready', 'not ready'

COLUMNS = ('Part', 'Name', 'Now', 'Then', 'Remedy')


class PlanRow(typing.NamedTuple):
    """One line of a plan.

    ``now`` and ``then`` are a str, or a dict, name -> number; ``remedy`` is a
    sentence or ''. ``is_in_the_way`` tells that it has to be seen to first.
    """

    part: str
    name: str
    now: object = ''
    then: object = ''
    remedy: str = ''
    is_in_the_way: bool = False


class PlanUnreadable(ValueError):
    """A file that is no plan, said in one sentence."""


class SavedPlan(typing.NamedTuple):
    """What a plan says, as it was kept in a file.

    ``host`` is the name of the host it is of; ``now`` and ``then`` are dicts,
    (part, name) -> what stood in that column.
    """

    host: str
    now: dict
    then: dict


def load_plan(path):
    """Return the Plan that was kept in a file.

    :param path: str, of what ``nova-prio host plan -f json`` wrote
    :raises Unreadable: where it is none
    """
    try:
        with open(path, encoding='utf-8') as file:
            found = json.load(file)
        rows = {(row['Part'], row['Name']): row for row in found}
        now, then = ({key: row[column] for key, row in rows.items()}
                     for column in ('Now', 'Then'))
        host, = (name for part, name in rows if part == VERDICT)
        plan = SavedPlan(host, now, then)
        _check(plan)
    except OSError as error:
        raise PlanUnreadable('%s cannot be read: %s'
                             % (path, error.strerror)) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError,
            exception.Invalid) as error:
        raise PlanUnreadable(
            '%s is no plan; allowed is what "nova-prio host plan -f json" '
            'wrote where nova-manage runs' % path) from error
    return plan


def _check(plan):
    """Read all that is used of a plan; raises what is not as it should be."""
    for values in plan.now, plan.then:
        values[TRAITS, TRAITS].split()
        for (part, name), value in values.items():
            if part in (INVENTORY, ROOM):
                for number in value.values():
                    capacity.parse_ratio(abs(number))
            elif part == OPTION and name.endswith('_set'):
                host_report.parse_cpu_set(value)
    get_cpus(plan)


def get_cpus(plan):
    """Return the ``capacity.HostCPUs`` that a plan is about."""
    then = {name: value for (part, name), value in plan.then.items()
            if part == OPTION}
    return capacity.HostCPUs(
        host_report.parse_cpu_set(then['cpu_dedicated_set']),
        host_report.parse_cpu_set(then['cpu_shared_set']),
        capacity.parse_ratio(then['cpu_allocation_ratio']),
        then['cpu_priority_mix_enable'] == 'true')
