# SPDX-License-Identifier: Apache-2.0

"""The servers and the events of a simulated week.

The events are drawn before the week starts, so that they are the same for all
sides and settings.
"""

import decimal
import heapq
import pathlib
import typing

import numpy

from nova_prio.cmd import gain_input
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain

_ROOT = pathlib.Path(__file__).parents[1]
#: Name of a demand -> (its file, percent of high priority in the vCPUs of the
#: servers with a priority).
DEMANDS = {
    'ovhcloud': (_ROOT / 'examples/demand/ovhcloud-2023.yaml', 50),
    'azure': (_ROOT / 'examples/demand/azure-2017.yaml', 50),
    'small': (_ROOT / 'benchmarks/demand/small-low.yaml', 20),
}
#: Part of the low-priority servers to which ordinary servers are added.
_ORDINARY = 0.2
#: CPUs, NUMA cells, and memory in MB of a host; the allocation ratio.
_CPUS, _CELLS, _MEMORY_MB, _RATIO = 64, 2, 8 * 64 * 1024, 2
#: The servers need this part of the hosts with mix, by first fit decreasing.
_LOAD = 0.97
HOURS = 7 * 24
#: Part of the hosts that fail, and of those with maintenance, in the week.
_FAILED, _MAINTAINED = 0.005, 0.03
#: Hours until a failed host returns, and hours of a maintenance.
_REPAIR_HOURS, _MAINTENANCE_HOURS = 8, 3
ARRIVE, LEAVE, FAIL, MAINTAIN, RETURN = range(5)


class Server(typing.NamedTuple):
    """A server: ``kind`` is its index in the kinds of the demand.

    It leaves at ``hours`` after the start of the week.
    """

    number: int
    kind: int
    hours: float


class Event(typing.NamedTuple):
    """An event; ``what`` is a Server, or the number of a host."""

    hour: float
    number: int
    name: int
    what: typing.Any


class Division(typing.NamedTuple):
    """A number of hosts with equal CPU sets."""

    cpus: cpu_capacity.HostCPUs
    hosts: int


def load_kinds(demand):
    """Return the servers of a demand, a list of ``first_fit.Kind``."""
    path, percent = DEMANDS[demand]
    kinds = gain_input.load_demand(path)
    vcpus = sum(gain.count_vcpus(kinds).values())
    kinds = gain.change_share(kinds, vcpus, percent)
    for kind in list(kinds):
        if kind.needs.request.priority == cpu_capacity.LOW:
            kinds.append(first_fit.Kind(
                gain.change_priority(kind.needs, None),
                round(_ORDINARY * kind.number)))
    return kinds


def make_host():
    """Return a host without instances, a ``host_fit.HostFit``."""
    return gain.make_host(
        cpus=_CPUS, cells=_CELLS, memory_mb=_MEMORY_MB, usable_mb=_MEMORY_MB,
        disk_gb=None)


def _make_groups(hosts):
    return [first_fit.HostGroup(make_host(), number=hosts)]


def _make_setup(mix):
    return gain.Setup(decimal.Decimal(_RATIO), mix)


def count_servers(kinds, hosts):
    """Return how many servers need nearly all hosts, if they have mix."""
    answer = gain.find_fewest(_make_groups(hosts), kinds, _make_setup(True))
    servers = sum(kind.number for kind in kinds)
    return round(_LOAD * servers * hosts / answer.hosts)


def divide_hosts(kinds, hosts, mix):
    """Return the best CPU sets of the hosts, a list of Division.

    Without mix, it may be best that pinned servers have hosts of their own.
    """
    groups, setup = _make_groups(hosts), _make_setup(mix)
    answer = gain.find_fewest(groups, kinds, setup)
    if answer.cpus is not None:
        return [Division(answer.cpus, hosts)]
    divisions = gain.list_divisions(groups, setup)
    more = sum(kind.number for kind in kinds)
    needed = []
    for division, is_pinned in (divisions[-1], True), (divisions[0], False):
        of_class = [kind for kind in kinds
                    if bool(kind.needs.request.needed_rows.high) == is_pinned]
        needed.append(first_fit.pack(
            [division[0]._replace(number=more)], of_class))
    pinned = round(hosts * needed[0] / sum(needed))
    return [Division(divisions[-1][0].fit.host.report.cpus, pinned),
            Division(divisions[0][0].fit.host.report.cpus, hosts - pinned)]


def draw_events(draw, kinds, servers, requests, hosts):
    """Return the events of the week, a heap of Event.

    :param draw: numpy.random.Generator
    :param servers: number of servers that want to run at each time; they
        arrive before hour 0
    :param requests: number of requests for servers in the week
    :param hosts: number of hosts
    """
    numbers = numpy.array([kind.number for kind in kinds], dtype=float)
    count = servers + requests
    chosen = draw.choice(len(kinds), count, p=numbers / numbers.sum())
    # As many servers leave as arrive.
    lives = draw.exponential(HOURS * servers / requests, count)
    hours = numpy.concatenate(
        [numpy.full(servers, -1.0), numpy.sort(draw.uniform(
            0, HOURS, requests))])
    events = [
        Event(hour, number, ARRIVE, Server(number, kind, hour + life))
        for number, (hour, kind, life) in enumerate(zip(
            hours.tolist(), chosen.tolist(), lives.tolist()))]
    for name, part, length in (
            (FAIL, _FAILED, _REPAIR_HOURS),
            (MAINTAIN, _MAINTAINED, _MAINTENANCE_HOURS)):
        for host in draw.permutation(hosts)[:max(1, round(part * hosts))]:
            hour = draw.uniform(0, HOURS)
            events.append(Event(hour, len(events), name, int(host)))
            events.append(
                Event(hour + length, len(events), RETURN, int(host)))
    heapq.heapify(events)
    return events
