# SPDX-License-Identifier: Apache-2.0

"""An independent model of the hosts and of the instances on them.

The model knows the requested operations and their outcomes. From the
documented rules alone, it calculates the expected numbers of the accounting,
Placement and the guests. It calls no code of nova_prio.
"""

import collections
import dataclasses
import fractions
import itertools
import math
import typing

from tests.fuzz import requests

REQUESTS = requests.REQUESTS
RESERVED_MEMORY_MB = 512


class Rows(typing.NamedTuple):
    """One number for each row of a host."""

    high: int
    low: int
    ordinary: int


@dataclasses.dataclass(frozen=True)
class Host:
    """The configuration of a host. ``cells`` are the CPUs of each NUMA cell.

    All CPU sets are frozensets of CPU numbers, ``ratio`` is a Fraction.
    """

    cells: tuple
    dedicated: frozenset
    shared: frozenset
    ratio: fractions.Fraction
    mix: bool
    memory_mb: int = 16384

    @property
    def low(self):
        """The CPUs where a low-priority guest may float."""
        return self.shared | self.dedicated if self.mix else self.shared

    def sellable(self, cell=frozenset(range(1024))):
        """Return the Rows that the host, or one NUMA cell of it, may sell."""
        dedicated = len(self.dedicated & cell)
        ordinary = len(self.shared & cell) * self.ratio
        low = ordinary
        if self.mix:
            low += dedicated * max(self.ratio - 1, 0)
        return Rows(dedicated, math.floor(low), math.floor(ordinary))

    def floating(self, request):
        """Return the CPUs where the shared vCPUs of a request run."""
        return self.low if request.is_low else self.shared


@dataclasses.dataclass
class Usage:
    """The usage of one instance on one host.

    ``pins`` are the CPUs that its guest has for itself, and ``shared`` the
    number of its shared vCPUs on each NUMA cell, if the guest has a topology.
    Both are None until a comparison has read the guest. ``is_evacuated`` means
    that the instance was evacuated and the host is still down: only the guest
    and the allocation remain.
    """

    host: str
    request: str
    pins: frozenset | None = None
    shared: dict | None = None
    is_evacuated: bool = False


@dataclasses.dataclass
class Server:
    """A server of the model; the last of its usages is the current one."""

    name: str
    uuid: str
    request: str
    status: str = 'ACTIVE'
    #: The status before a resize, which the server gets again afterwards.
    before: str = 'ACTIVE'
    #: Nova refuses a live migration as long as this is true.
    is_power_unknown: bool = False
    usages: list = dataclasses.field(default_factory=list)

    @property
    def host(self):
        """The name of the host, or None if the server is offloaded."""
        return self.usages[-1].host if self.usages else None

    @property
    def hosts(self):
        """The names of all hosts with a usage of the server."""
        return {usage.host for usage in self.usages}


class Model:
    """The servers on some hosts, and the rules of admission."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.down = set()
        self.servers = {}
        # Guests of instances that were deleted while their host was down,
        # as pairs (host, UUID).
        self.orphans = set()

    @property
    def up(self):
        """The names of the hosts that are up, a list."""
        return [host for host in self.hosts if host not in self.down]

    def usages(self, host):
        """Yield pairs (Server, Usage) of a host."""
        for server in self.servers.values():
            for usage in server.usages:
                if usage.host == host:
                    yield server, usage

    def counted_usages(self, host):
        """Return the Usages that the accounting of a host counts, a list."""
        return [usage for _, usage in self.usages(host)
                if not usage.is_evacuated]

    # Accounting

    def used(self, host):
        """Return the Rows in use."""
        return self._used(REQUESTS[usage.request]
                          for usage in self.counted_usages(host))

    def _used(self, found):
        high = low = ordinary = 0
        for request in found:
            high += request.dedicated
            low += request.shared
            if not request.is_low:
                ordinary += request.shared
        return Rows(high, low, ordinary)

    def vcpus(self, host):
        """Return the vCPUs of all instances."""
        return sum(REQUESTS[usage.request].vcpus
                   for usage in self.counted_usages(host))

    def memory_mb(self, host):
        """Return the memory of all instances."""
        return sum(REQUESTS[usage.request].memory_mb
                   for usage in self.counted_usages(host))

    def pins(self, host):
        """Return the CPUs that are pinned, a list: each CPU once."""
        return [cpu for usage in self.counted_usages(host)
                for cpu in usage.pins]

    def shared_by_cell(self, host, low_only=False):
        """Return Counter, NUMA cell -> vCPUs that float on it."""
        found = collections.Counter()
        for usage in self.counted_usages(host):
            if REQUESTS[usage.request].is_low or not low_only:
                found.update(usage.shared)
        return +found

    # Placement

    def inventories(self, name):
        """Return the inventories of a host: class -> dict.

        The hosts of the fuzz are never oversold. Memory is
        that of stock Nova, at a ratio of 1.0.
        """
        host = self.hosts[name]
        sellable = host.sellable()
        vcpu = {'total': len(host.shared), 'reserved': 0,
                'max_unit': len(host.shared)}
        if host.mix:
            total = len(host.shared) + len(host.dedicated)
            vcpu = {
                'total': total,
                'reserved': max(
                    reserved for reserved in range(total)
                    if int((total - reserved) * host.ratio) >= sellable.low),
                'max_unit': len(host.low)}
        return {
            'VCPU': {**vcpu, 'allocation_ratio': float(host.ratio)},
            'PCPU': {'total': sellable.high, 'reserved': 0,
                     'max_unit': sellable.high, 'allocation_ratio': 1.0},
            'MEMORY_MB': {'total': host.memory_mb, 'max_unit': host.memory_mb,
                          'reserved': RESERVED_MEMORY_MB,
                          'allocation_ratio': 1.0},
        }

    def allocations(self, host, migration_of):
        """Return the allocations of a host: consumer -> resources.

        :param migration_of: function, UUID of a server in VERIFY_RESIZE ->
            UUID of its migration, which has the allocation at the source
        """
        found = {}
        for server, usage in self.usages(host):
            consumer = server.uuid
            if server.status == 'VERIFY_RESIZE' and usage is server.usages[0]:
                consumer = migration_of(server.uuid)
            found[consumer] = REQUESTS[usage.request].resources
        return found

    # Admission

    def refusal(self, name, request, more=()):
        """Return why a host refuses a request, or None if the request fits.

        :param name: name of the host
        :param request: name of the request
        :param more: Usages that count in addition to those of the model
        """
        host, request = self.hosts[name], REQUESTS[request]
        usages = [*self.counted_usages(name), *more]
        used = self._used(REQUESTS[usage.request] for usage in usages)
        room = [limit - taken
                for limit, taken in zip(host.sellable(), used)]
        memory_mb = (host.memory_mb - RESERVED_MEMORY_MB -
                     sum(REQUESTS[usage.request].memory_mb
                         for usage in usages))
        if request.dedicated > room[0]:
            return 'high row'
        if request.shared > room[1]:
            return 'low row'
        if request.shared > room[2] and not request.is_low:
            return 'ordinary row'
        if request.shared > len(host.floating(request)):
            return 'more vCPUs than CPUs'
        if request.memory_mb > memory_mb:
            return 'memory'
        if request.cells and not self._place(name, request, usages):
            return 'NUMA cells'
        return None

    def _place(self, name, request, usages):
        """Return the host cell of each guest cell, or None if none fit."""
        host = self.hosts[name]
        fitting_cells = [
            [number for number, cell in enumerate(host.cells)
             if self._cell_fits(host, number, cell, request, wanted, usages)]
            for wanted in request.cells]
        for numbers in itertools.product(*fitting_cells):
            if len(set(numbers)) == len(numbers):
                return numbers
        return None

    @staticmethod
    def _cell_fits(host, number, cell, request, wanted, usages):
        dedicated, shared = wanted
        pinned = {cpu for usage in usages for cpu in usage.pins}
        low, ordinary = (
            sum(usage.shared.get(number, 0) for usage in usages
                if REQUESTS[usage.request].is_low == is_low)
            for is_low in (True, False))
        sellable = host.sellable(cell)
        room = sellable.low - low - ordinary
        if not request.is_low:
            room = min(room, sellable.ordinary - ordinary)
        return (dedicated <= len(host.dedicated & cell - pinned) and
                shared <= len(host.floating(request) & cell) and
                shared <= room)

    def fitting_hosts(self, request, hosts):
        """Return the hosts that are up and fit a request, a list."""
        return [host for host in hosts
                if host in self.up and not self.refusal(host, request)]

    def count_fitting(self, name, request, count):
        """Return the number of instances that fit, at most ``count``."""
        more = []
        while len(more) < count and not self.refusal(name, request, more):
            more.append(self.simulate_usage(name, request, more))
        return len(more)

    def simulate_usage(self, name, request, more=()):
        """Return a possible Usage of an instance that fits."""
        host, wanted = self.hosts[name], REQUESTS[request]
        usages = [*self.counted_usages(name), *more]
        pinned = {cpu for usage in usages for cpu in usage.pins}
        pins, shared = set(), {}
        numbers = self._place(name, wanted, usages) if wanted.cells else ()
        for number, (dedicated, floating) in zip(numbers, wanted.cells):
            free = sorted(host.dedicated & host.cells[number] - pinned)
            pins.update(free[:dedicated])
            shared[number] = floating
        return Usage(name, request, frozenset(pins), shared)
