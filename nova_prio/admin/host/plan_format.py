# SPDX-License-Identifier: Apache-2.0

"""The rows of a plan, and the file that keeps a plan."""

import collections
from collections import abc
import json
import os
import typing

from nova import exception
from nova.virt import hardware

from nova_prio.admin import host as admin_host
from nova_prio.model import cpu_capacity
from nova_prio.model import inventory
from nova_prio.objects import host_report

#: Parts of a plan. OPTION, INVENTORY, TRAITS and CAPACITY have a row for each
#: name, even if nothing changes.
OPTION, INVENTORY, TRAITS = 'option', 'inventory', 'traits'
CAPACITY, ALLOCATION = 'room', 'allocation'
#: Parts about an instance: it is pinned outside of the planned dedicated CPUs,
#: needs whole cores, is in an oversold row, floats on dedicated CPUs, or
#: shares its dedicated CPUs with low-priority guests.
PINNED_OUTSIDE, WHOLE_CORES, OVERSOLD = 'pinned outside', 'whole cores', 'over'
FLOATING, SHARING = 'floats', 'joined'
#: Parts about the host: a problem, a step of the operator, the verdict.
HOST, STEP, VERDICT = 'host', 'step', 'verdict'

READY, NOT_READY = 'ready', 'not ready'

COLUMNS = ('Part', 'Name', 'Now', 'Then', 'Remedy')

#: A text, or numbers by name.
Value = str | abc.Mapping[str, float]


class PlanRow(typing.NamedTuple):
    """One line of a plan.

    ``remedy`` is a sentence or ''. ``is_blocking`` says that the operator must
    solve the problem before the first step.
    """

    part: str
    name: str
    present: Value = ''
    planned: Value = ''
    remedy: str = ''
    is_blocking: bool = False


class SavedPlan(typing.NamedTuple):
    """The plan in a file: values before the plan, and planned values.

    An option is '' in ``old_options`` if it was not set. An inventory is {} in
    ``old_inventories`` if the host did not have the resource class. The traits
    are those of this package. ``floating`` are the UUIDs of the instances
    whose guests float on planned dedicated CPUs until they are rebooted or
    moved. ``is_ready`` says whether the host was ready.
    """

    host: str
    old_options: dict[str, str]
    old_cpus: cpu_capacity.HostCPUs
    planned_cpus: cpu_capacity.HostCPUs
    old_inventories: inventory.Inventories
    old_traits: list[str]
    planned_traits: list[str]
    floating: list[str]
    is_ready: bool


def format_options(cpus: cpu_capacity.HostCPUs) -> dict[str, str]:
    """Return the options of nova-compute for these CPUs, name -> text."""
    return {
        'cpu_dedicated_set': hardware.format_cpu_spec(cpus.dedicated),
        'cpu_shared_set': hardware.format_cpu_spec(cpus.shared),
        'cpu_allocation_ratio': str(cpus.ratio),
        'cpu_priority_mix_enable': str(cpus.mix).lower()}


def _parse_cpus(options: abc.Mapping[str, str]) -> cpu_capacity.HostCPUs:
    """Return the HostCPUs that options of nova-compute describe.

    :param options: name -> text, as of :func:`format_options`
    """
    return cpu_capacity.HostCPUs(
        dedicated=host_report.parse_cpu_set(options['cpu_dedicated_set']),
        shared=host_report.parse_cpu_set(options['cpu_shared_set']),
        ratio=cpu_capacity.parse_ratio(options['cpu_allocation_ratio']),
        mix=options['cpu_priority_mix_enable'] == 'true')


def get_path(directory: str, host: str) -> str:
    """Return the path of the plan of a host in a directory of plans.

    :raises nova_prio.admin.host.HostRefused: if no file can have this name
    """
    # A compute host chooses its name. With a slash in it, the file could be in
    # another directory.
    if '/' in host:
        raise admin_host.HostRefused(
            "HOST is '%s'; allowed are names without a slash." % host)
    return os.path.join(directory, host + '.json')


def load_plan(path: str, host: str) -> SavedPlan:
    """Return the SavedPlan of a host from a file.

    :param path: of the output of ``nova-prio host plan -f json``, or of the
        directory of ``--output-dir``
    :raises nova_prio.admin.host.HostRefused: if the file has no plan of the
        host
    """
    if os.path.isdir(path):
        path = get_path(path, host)
    try:
        with open(path, encoding='utf-8') as file:
            plan = _parse_plan(json.load(file))
    except OSError as error:
        raise admin_host.HostRefused('The plan %s cannot be read: %s.' % (
            path, error.strerror)) from error
    # Other content than that of a plan may raise any of these. So does a plan
    # that was made without Nova's databases, because it is not complete.
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


def _parse_plan(rows: list[dict[str, typing.Any]]) -> SavedPlan:
    """Return the SavedPlan in the rows of a file.

    Any exception tells the caller that the rows are no plan.

    :param rows: for each line of the plan, name of a column -> its value. A
        line is about a part of the plan, such as the options, and has a name,
        a value now, and the planned value then.
    """
    # Part -> name -> value.
    old: dict[str, dict[str, typing.Any]] = collections.defaultdict(dict)
    planned: dict[str, dict[str, typing.Any]] = collections.defaultdict(dict)
    for row in rows:
        part, name = row['Part'], row['Name']
        old[part][name], planned[part][name] = row['Now'], row['Then']
        if part in (INVENTORY, CAPACITY):
            for numbers in row['Now'], row['Then']:
                for number in numbers.values():
                    # This raises an error unless the number is finite. A
                    # negative number is allowed.
                    cpu_capacity.parse_ratio(abs(number))
    # The part VERDICT has one row: name of the host, READY or NOT_READY. More
    # or fewer rows are an error.
    host, = planned[VERDICT]
    readiness = planned[VERDICT][host]
    # The part TRAITS has one row, which is named like the part. The rows of
    # the part FLOATING are named by UUID of an instance: its guest floats on
    # planned dedicated CPUs until it is rebooted or moved.
    return SavedPlan(
        host=host, old_options=old[OPTION],
        old_cpus=_parse_cpus(old[OPTION]),
        planned_cpus=_parse_cpus(planned[OPTION]),
        old_inventories=old[INVENTORY],
        old_traits=old[TRAITS][TRAITS].split(),
        planned_traits=planned[TRAITS][TRAITS].split(),
        floating=list(planned[FLOATING]),
        is_ready=readiness == READY)
