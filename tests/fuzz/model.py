# SPDX-License-Identifier: Apache-2.0

"""An independent model of the hosts and of the instances on them.

The model knows the operations that were asked for and their outcomes. It
computes the numbers that the accounting, Placement and the guests must show
from the rules alone: nothing here calls the package under test.
"""

import collections
import dataclasses
import fractions
import itertools
import math
import typing

from tests.fuzz import kinds

KINDS = kinds.KINDS
RESERVED_MEMORY_MB = 512


class Rows(typing.NamedTuple):
    """One number for each row of a host."""

    high: int
    low: int
    ordinary: int


@dataclasses.dataclass(frozen=True)
class Host:
    """The configuration of a host; ``cells`` are the CPUs of each NUMA cell.

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
        """The CPUs on which a low-priority guest may float."""
        return self.shared | self.dedicated if self.mix else self.shared

    def sellable(self, cell=frozenset(range(1024))):
        """Return the Rows that the host, or one NUMA cell of it, may sell."""
        dedicated = len(self.dedicated & cell)
        ordinary = len(self.shared & cell) * self.ratio
        low = ordinary
        if self.mix:
            low += dedicated * max(self.ratio - 1, 0)
        return Rows(dedicated, math.floor(low), math.floor(ordinary))

    def floating(self, kind):
        """Return the CPUs on which the shared vCPUs of a kind run."""
        return self.low if kind.is_low else self.shared


@dataclasses.dataclass
class Hold:
    """What an instance holds of one host.

    ``pins`` are the CPUs that its guest has for itself, and ``shared`` the
    number of its shared vCPUs on each NUMA cell, if the guest has a topology.
    Both are None until the guest was seen. ``is_left`` tells that the
    instance was evacuated and the host is down since: only Placement and the
    guest remain.
    """

    host: str
    kind: str
    pins: frozenset | None = None
    shared: dict | None = None
    is_left: bool = False


@dataclasses.dataclass
class Server:
    """A server of the model; the last of its holds is the current one."""

    name: str
    uuid: str
    kind: str
    status: str = 'ACTIVE'
    #: The status before a resize, which comes back with its end.
    before: str = 'ACTIVE'
    #: Nova refuses to migrate a server live as long as this is true.
    is_power_unknown: bool = False
    holds: list = dataclasses.field(default_factory=list)

    @property
    def host(self):
        """The name of the host, or None if the server is offloaded."""
        return self.holds[-1].host if self.holds else None

    @property
    def hosts(self):
        """The names of all hosts that have something of the server."""
        return {hold.host for hold in self.holds}


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

    def holds(self, host):
        """Yield pairs (Server, Hold) of a host."""
        for server in self.servers.values():
            for hold in server.holds:
                if hold.host == host:
                    yield server, hold

    def counted(self, host):
        """Return the Holds that the accounting of a host counts, a list."""
        return [hold for _, hold in self.holds(host) if not hold.is_left]

    # Accounting

    def used(self, host):
        """Return the Rows in use."""
        return self._used(KINDS[hold.kind] for hold in self.counted(host))

    def _used(self, found):
        high = low = ordinary = 0
        for kind in found:
            high += kind.dedicated
            low += kind.shared
            if not kind.is_low:
                ordinary += kind.shared
        return Rows(high, low, ordinary)

    def vcpus(self, host):
        """Return the vCPUs of all instances."""
        return sum(KINDS[hold.kind].vcpus
                   for hold in self.counted(host))

    def memory_mb(self, host):
        """Return the memory of all instances."""
        return sum(KINDS[hold.kind].memory_mb for hold in self.counted(host))

    def pins(self, host):
        """Return the CPUs that are pinned, a list: each CPU once."""
        return [cpu for hold in self.counted(host) for cpu in hold.pins]

    def shared_by_cell(self, host, low_only=False):
        """Return Counter, NUMA cell -> vCPUs that float on it."""
        found = collections.Counter()
        for hold in self.counted(host):
            if KINDS[hold.kind].is_low or not low_only:
                found.update(hold.shared)
        return +found

    # Placement

    def inventories(self, name):
        """Return the inventories of a host: class -> dict.

        The hosts of the fuzz never hold more than they may sell. Memory is
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

        :param migration_of: function, UUID of a server that waits to be
            confirmed -> UUID of its migration, which holds the source
        """
        found = {}
        for server, hold in self.holds(host):
            consumer = server.uuid
            if server.status == 'VERIFY_RESIZE' and hold is server.holds[0]:
                consumer = migration_of(server.uuid)
            found[consumer] = KINDS[hold.kind].resources
        return found

    # Admission

    def refusal(self, name, kind, more=()):
        """Return why a host has no room for a kind, or None if it fits.

        :param name: name of the host
        :param kind: name of the kind
        :param more: Holds that count beside those of the model
        """
        host, kind = self.hosts[name], KINDS[kind]
        holds = [*self.counted(name), *more]
        used = self._used(KINDS[hold.kind] for hold in holds)
        room = [limit - taken
                for limit, taken in zip(host.sellable(), used)]
        memory_mb = (host.memory_mb - RESERVED_MEMORY_MB -
                     sum(KINDS[hold.kind].memory_mb for hold in holds))
        if kind.dedicated > room[0]:
            return 'high row'
        if kind.shared > room[1]:
            return 'low row'
        if kind.shared > room[2] and not kind.is_low:
            return 'ordinary row'
        if kind.shared > len(host.floating(kind)):
            return 'more vCPUs than CPUs'
        if kind.memory_mb > memory_mb:
            return 'memory'
        if kind.cells and not self._place(name, kind, holds):
            return 'NUMA cells'
        return None

    def _place(self, name, kind, holds):
        """Return host cells for the guest cells, or None if none fit."""
        host = self.hosts[name]
        fitting = [[number for number, cell in enumerate(host.cells)
                    if self._cell_fits(host, number, cell, kind, wanted,
                                       holds)]
                   for wanted in kind.cells]
        for numbers in itertools.product(*fitting):
            if len(set(numbers)) == len(numbers):
                return numbers
        return None

    @staticmethod
    def _cell_fits(host, number, cell, kind, wanted, holds):
        dedicated, shared = wanted
        pinned = {cpu for hold in holds for cpu in hold.pins}
        low, ordinary = (
            sum(hold.shared.get(number, 0) for hold in holds
                if KINDS[hold.kind].is_low == is_low)
            for is_low in (True, False))
        sellable = host.sellable(cell)
        room = sellable.low - low - ordinary
        if not kind.is_low:
            room = min(room, sellable.ordinary - ordinary)
        return (dedicated <= len(host.dedicated & cell - pinned) and
                shared <= len(host.floating(kind) & cell) and
                shared <= room)

    def fitting(self, kind, hosts):
        """Return those of some hosts that are up and have room, a list."""
        return [host for host in hosts
                if host in self.up and not self.refusal(host, kind)]

    def room_for(self, name, kind, count):
        """Return how many instances of a kind fit, at most ``count``."""
        more = []
        while len(more) < count and not self.refusal(name, kind, more):
            more.append(self.imagine(name, kind, more))
        return len(more)

    def imagine(self, name, kind, more=()):
        """Return a Hold as an instance that fits might get it."""
        host, wanted = self.hosts[name], KINDS[kind]
        holds = [*self.counted(name), *more]
        pinned = {cpu for hold in holds for cpu in hold.pins}
        pins, shared = set(), {}
        numbers = self._place(name, wanted, holds) if wanted.cells else ()
        for number, (dedicated, floating) in zip(numbers, wanted.cells):
            free = sorted(host.dedicated & host.cells[number] - pinned)
            pins.update(free[:dedicated])
            shared[number] = floating
        return Hold(name, kind, frozenset(pins), shared)
