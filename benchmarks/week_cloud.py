# SPDX-License-Identifier: Apache-2.0

"""The hosts of a simulated week, and how they are chosen.

Placement is simulated: the inventories are those of the driver, and the
candidates are the hosts that have enough of each. The rest is real: Nova's
HostState and fit of NUMA topologies, and the filter and the weigher of this
package. The weight orders the hosts, and the first one that passes wins, which
is the host that Nova chooses.

Each server without low priority is busy for a part of the time, which is drawn
for it. Low-priority servers are always busy, and share what is left of the
floating CPUs.

Rows and mix hosts are explained in :mod:`nova_prio.model.cpu_capacity`.
"""

import collections
import functools
import random
import typing

from nova import objects
from nova.scheduler import weights
from nova.scheduler.weights import cpu
from nova.virt import hardware
from nova import weights as nova_weights
import numpy
import os_resource_classes as orc

from benchmarks import filters
from benchmarks import hosts
from benchmarks import request_specs
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import inventory
from nova_prio.model import low_supply
from nova_prio.model import usage
from nova_prio.objects import host_report
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import request_view
from nova_prio.scheduler.weights import low_supply_weigher
from nova_prio.scheduler.weights import priority_weighter

CPUS, MEMORY, BOTH = 'CPUs', 'memory', 'CPUs and memory'
#: Reason if a host that was no candidate has room for the server.
LIMIT = 'limit'
_CLASSES = (orc.PCPU, orc.VCPU, orc.MEMORY_MB)
_NO_ROWS = cpu_capacity.Rows(high=0, low=0, ordinary=0)
#: The reported low supply has this number of steps.
_STEPS = 10
#: Name -> function that makes the part of the time that a server is busy from
#: a random number, 0 to 1. Of "halves", one half sleeps, and the other works.
BUSY = {'even': lambda drawn: drawn,
        'halves': lambda drawn: 0.05 if drawn < 0.5 else 0.95}


class Host:
    """A host with its instances.

    ``used`` are the used vCPUs of each row. ``instances`` is dict, number of
    a server -> (its index in the kinds, its topology on the host or None).
    ``outages`` counts why it takes no instance: it failed, or has maintenance.
    ``busy`` is the number of floating CPUs that servers without low priority
    use.
    """

    def __init__(self, number, fit, is_stock):
        """Make an empty host; ``fit`` is its ``host_fit.HostFit``."""
        self.cpus = fit.host.report.cpus
        self.is_stock = is_stock
        self.used = _NO_ROWS
        self.instances = {}
        self.outages = 0
        self.busy = 0.0
        self.state = hosts.make_state(
            'host%d' % number, vcpus=len(self.cpus.shared), vcpus_used=0,
            ratio=float(self.cpus.ratio), memory_mb=fit.free_memory_mb,
            topology=_make_topology(self.cpus, len(fit.cells),
                                    fit.free_memory_mb), stats={})
        self.report()

    def report(self):
        """Write the report of the host, as its nova-compute does."""
        if not self.is_stock:
            step = len(self.cpus.floating) / _STEPS
            supply = round(self.supply / step) * step if step else 0.0
            self.state.stats = {host_report.STATS_KEY: _make_report(
                self.cpus, self.used, self.state.vcpus_used,
                low_supply.LowSupply(int(100 * supply), None))}

    @property
    def supply(self):
        """The number of CPUs that low-priority servers can get."""
        return max(len(self.cpus.floating) - self.busy, 0.0)

    @property
    def share(self):
        """The CPU time of each low-priority vCPU, at most 1.

        None without such vCPUs.
        """
        vcpus = self.used.low - self.used.ordinary
        return min(self.supply / vcpus, 1.0) if vcpus else None

    def count(self, request, busy_part, sign):
        """Count a server as present, or as gone.

        :param busy_part: part of the time that its vCPUs are busy
        :param sign: 1 or -1
        """
        self.used = cpu_capacity.add_rows(self.used, request.needed_rows, sign)
        # The pinned vCPUs run on floating CPUs only on a mix host.
        is_floating = self.cpus.mix or request.priority is None
        if is_floating and request.priority != cpu_capacity.LOW:
            self.busy += sign * busy_part * request.vcpus
        self.report()


@functools.lru_cache(maxsize=2 ** 17)
def _make_report(cpus, used, vcpus_used, supply):
    return host_report.HostReport.to_stats(
        capacity_report.CapacityReport.from_usage(
            cpus, used, vcpus_used, low_by_cell={}, low_supply=supply))


@functools.lru_cache
def _make_topology(cpus, cells, memory_mb):
    """Return the NUMA topology of an empty host as text."""
    everything = sorted(cpus.dedicated | cpus.shared)
    size = len(everything) // cells
    made = []
    for cell in range(cells):
        own = frozenset(everything[cell * size:(cell + 1) * size])
        made.append(objects.NUMACell(
            id=cell, socket=cell, cpuset=set(own & cpus.shared),
            pcpuset=set(own & cpus.dedicated), pinned_cpus=set(),
            siblings=[{number} for number in own],
            memory=memory_mb // cells, memory_usage=0, cpu_usage=0,
            mempages=[objects.NUMAPagesTopology(
                size_kb=4, total=memory_mb // cells * 256, used=0,
                reserved=0)],
            network_metadata=objects.NetworkMetadata(
                physnets=set(), tunneled=False)))
    return objects.NUMATopology(cells=made)._to_json()


class Kind(typing.NamedTuple):
    """Equal servers: what they need, for the model and for Nova.

    ``request`` is the ``request_view.SchedulingRequest``, ``nova`` the
    ``request_specs.Request``. ``topology`` is that of its RequestSpec, and
    ``amounts`` are those of each of the resource classes.
    """

    request: request_view.SchedulingRequest
    nova: request_specs.Request
    topology: objects.InstanceNUMATopology | None
    amounts: numpy.ndarray


def make_kind(nova):
    """Return the Kind of a ``request_specs.Request``."""
    # The filter reads a request once, and may use it for all of its hosts.
    return Kind(
        request=request_view.read_request(nova.spec), nova=nova,
        topology=nova.spec.numa_topology,
        amounts=numpy.array([nova.resources.get(each, 0)
                             for each in _CLASSES]))


class Cloud:
    """All hosts, their inventories and allocations.

    :param fits: list of ``host_fit.HostFit``
    :param draw: numpy.random.Generator
    :param limit: most candidates of a request
    :param names_limit: whether other hosts are tried for each refused server,
        to find out whether the limit is the reason
    :param is_random: whether Placement returns candidates in random order
    :param seed: of the parts of the time that the servers are busy
    :param busy: a key of BUSY
    :param weighs_supply: whether LowSupplyWeigher has a multiplier
    """

    def __init__(self, fits, kinds, draw, is_stock, limit, is_random, seed,
                 busy, names_limit, weighs_supply):
        """Make empty hosts; the class describes the parameters."""
        self.hosts = [Host(number, fit, is_stock)
                      for number, fit in enumerate(fits)]
        self.kinds = kinds
        # A column for each host: the free amount of each resource class.
        self.free = numpy.array(
            [_count_sellable(host) for host in self.hosts]).T.copy()
        self.most_vcpus = numpy.array(
            [len(host.cpus.floating) for host in self.hosts])
        self.is_open = numpy.ones(len(fits), dtype=bool)
        self.is_stock = is_stock
        self._draw = draw
        self._limit = limit
        self._is_random = is_random
        self._names_limit = names_limit
        self._filter = priority_filter.PriorityFilter()
        self._weighers = [cpu.CPUWeigher() if is_stock
                          else priority_weighter.PriorityWeighter()]
        if weighs_supply:
            self._weighers.append(low_supply_weigher.LowSupplyWeigher())
        self._seed, self._busy = seed, BUSY[busy]

    def schedule(self, server, kind_number):
        """Place a server.

        :param server: number of the server
        :param kind_number: index of its kind
        :returns: (number of the host or None, reason of the refusal or None)
        """
        kind = self.kinds[kind_number]
        has_cpus = self.is_open & (
            self.free[:2] >= kind.amounts[:2, None]).all(axis=0)
        has_cpus &= self.most_vcpus >= kind.amounts[1]
        has_memory = self.is_open & (self.free[2] >= kind.amounts[2])
        suitable = numpy.flatnonzero(has_cpus & has_memory)
        if not len(suitable):
            return None, _name_shortage(has_cpus, has_memory)
        candidates = suitable
        if self._is_random:
            candidates = self._draw.choice(
                suitable, min(self._limit, len(suitable)), replace=False)
        candidates = candidates[:self._limit]
        reasons = collections.Counter()
        for number in self._order(candidates.tolist(), kind):
            host = self.hosts[number]
            copied = self._copy(number, kind)
            refusal = self._find_refusal(copied, kind)
            if refusal is None:
                host.state.limits = copied.limits
                self._place(host, number, server, kind_number)
                return number, None
            reasons[refusal] += 1
        if self._names_limit and any(
                self._find_refusal(self._copy(number, kind), kind) is None
                for number in numpy.setdiff1d(suitable, candidates)):
            return None, LIMIT
        return None, reasons.most_common(1)[0][0]

    def _copy(self, number, kind):
        """Return a copy of a host for a request."""
        copied, = hosts.copy_for(kind.nova, [self.hosts[number].state])
        return copied

    def _order(self, candidates, kind):
        """Return numbers of hosts, the one with the largest weight first."""
        weighed = [weights.WeighedHost(self.hosts[number].state, 0.0)
                   for number in candidates]
        final = numpy.zeros(len(candidates))
        for weigher in self._weighers:
            found, multipliers = filters.call_as_handler(
                weigher, weighed, kind.nova.spec)
            # What Nova's handler does for each weigher.
            normalized = nova_weights.normalize(
                list(found), weigher.minval, weigher.maxval)
            final += numpy.array(list(normalized)) * numpy.array(multipliers)
        return [candidates[place]
                for place in numpy.argsort(-final, kind='stable')]

    def _draw_busy_part(self, server):
        """Return the part of the time that a server is busy, 0 to 1.

        It is the same in each cloud.
        """
        drawn = random.Random('%d:%d' % (self._seed, server)).random()
        return self._busy(drawn)

    def _find_refusal(self, state, kind):
        """Return the name of the reason why a host does not fit, or None."""
        spec = kind.nova.spec
        if not self.is_stock:
            refusal = self._filter.find_refusal(state, kind.request, spec)
            return refusal and refusal.reason
        if kind.topology is None:
            return None
        # What NUMATopologyFilter does beside a copy of the request.
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=state.cpu_allocation_ratio,
            ram_allocation_ratio=state.ram_allocation_ratio)
        if not hardware.numa_fit_instance_to_host(
                state.numa_topology, kind.topology.obj_clone(),
                limits=limits, provider_mapping={}):
            return 'numa_topology'
        state.limits['numa_topology'] = limits
        return None

    def _place(self, host, number, server, kind_number):
        """Let a host count a server, as after the claim."""
        kind = self.kinds[kind_number]
        spec = kind.nova.spec
        # Nova writes the fitted topology into the request.
        if kind.topology is not None:
            spec.numa_topology = kind.topology.obj_clone()
        host.state.consume_from_request(spec)
        host.instances[server] = kind_number, spec.numa_topology
        spec.numa_topology = kind.topology
        self.free[:, number] -= kind.amounts
        host.count(kind.request, self._draw_busy_part(server), sign=1)

    def remove(self, number, server):
        """Remove a server from a host; return the index of its kind."""
        host = self.hosts[number]
        kind_number, topology = host.instances.pop(server)
        kind = self.kinds[kind_number]
        host.state.free_ram_mb += kind.request.memory_mb
        host.state.vcpus_used -= kind.request.vcpus
        if topology is not None:
            host.state.numa_topology = hardware.numa_usage_from_instance_numa(
                host.state.numa_topology, topology, free=True)
        self.free[:, number] += kind.amounts
        host.count(kind.request, self._draw_busy_part(server), sign=-1)
        return kind_number

    def close(self, number, outages):
        """Change the number of outages of a host by 1 or -1."""
        host = self.hosts[number]
        host.outages += outages
        self.is_open[number] = not host.outages


def _count_sellable(host):
    """Return the amount of each resource class that Placement sells."""
    totals = usage.Totals([])
    nova = inventory.build_cpu_inventories(host.cpus, {})
    nova[orc.MEMORY_MB] = {
        'total': host.state.total_usable_ram_mb, 'reserved': 0,
        'allocation_ratio': 1.0}
    if not host.is_stock:
        nova = inventory.build_priority_inventories(nova, host.cpus, totals)
    amounts = []
    for resource_class in _CLASSES:
        amount = 0
        if resource_class in nova:
            of_class = nova[resource_class]
            amount = int((of_class['total'] - of_class['reserved']) *
                         of_class['allocation_ratio'])
        amounts.append(amount)
    return amounts


def _name_shortage(has_cpus, has_memory):
    """Return the resource for lack of which no host is a candidate."""
    if not has_cpus.any():
        return CPUS
    return MEMORY if not has_memory.any() else BOTH
