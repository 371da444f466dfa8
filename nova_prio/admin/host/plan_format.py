# SPDX-License-Identifier: Apache-2.0

"""The rows of a plan, and the file that keeps a plan."""

import json
import typing

from nova import exception

from nova_prio.admin import host as admin_host
from nova_prio.model import capacity
from nova_prio.objects import host_report

#: Parts of a plan. The first three have a row for each name, even if nothing
#: changes.
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
    sentence or ''. ``is_blocking`` says that the operator must solve the
    problem before the first step.
    """

    part: str
    name: str
    now: object = ''
    then: object = ''
    remedy: str = ''
    is_blocking: bool = False


class SavedPlan(typing.NamedTuple):
    """The plan in a file.

    ``host`` is the name of the host; ``now`` and ``then`` are dicts,
    (part, name) -> value of that column.
    """

    host: str
    now: dict
    then: dict


def load_plan(path, host):
    """Return the SavedPlan of a host from a file.

    :param path: str, of the output of ``nova-prio host plan -f json``
    :raises nova_prio.admin.host.HostRefused: if the file has no plan of the
        host
    """
    try:
        with open(path, encoding='utf-8') as file:
            rows = {(row['Part'], row['Name']): row for row in json.load(file)}
        now, then = ({key: row[column] for key, row in rows.items()}
                     for column in ('Now', 'Then'))
        name, = (name for part, name in rows if part == VERDICT)
        plan = SavedPlan(name, now, then)
        _check(plan)
    except OSError as error:
        raise admin_host.HostRefused('The plan %s cannot be read: %s.' % (
            path, error.strerror)) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError,
            exception.Invalid) as error:
        raise admin_host.HostRefused(
            '%s is no plan; allowed is the output of "nova-prio host plan -f '
            'json" from a host where nova-manage runs.' % path) from error
    if plan.host != host:
        raise admin_host.HostRefused(
            '%s is a plan of %s; allowed is a plan of %s.'
            % (path, plan.host, host))
    return plan


def _check(plan):
    """Parse all values of a plan, which raises an error if one is wrong."""
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
    """Return the planned ``capacity.HostCPUs``."""
    then = {name: value for (part, name), value in plan.then.items()
            if part == OPTION}
    return capacity.HostCPUs(
        host_report.parse_cpu_set(then['cpu_dedicated_set']),
        host_report.parse_cpu_set(then['cpu_shared_set']),
        capacity.parse_ratio(then['cpu_allocation_ratio']),
        then['cpu_priority_mix_enable'] == 'true')
