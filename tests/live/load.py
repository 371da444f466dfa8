# SPDX-License-Identifier: Apache-2.0

"""Bursts of creates at a live cloud, and the CPUs that its hosts sold.

No code of nova_prio counts the sold CPUs: see tests.live.snapshots and state.
"""

import collections
import concurrent.futures
import dataclasses
import itertools
import json
import threading
import typing

import tenacity

from tests.live import catalog
from tests.live import snapshots
from tests.live import state
from tests.live import waiting

#: Seconds until a server that is still being built counts as stuck.
SECONDS = 900


class Flavor(typing.NamedTuple):
    """A flavor, and how many of its vCPUs are dedicated."""

    vcpus: int
    dedicated: int
    extra_specs: dict


MEMORY_MB = 64
DISK_GB = 1
#: Name -> Flavor. With plain Nova, the CPUs of the guests are the same, except
#: that a low-priority guest is an ordinary one.
FLAVORS = {
    'load-high': Flavor(2, 2, {'hw:cpu_priority': 'high',
                               'hw:cpu_policy': 'dedicated'}),
    'load-low': Flavor(2, 0, {'hw:cpu_priority': 'low'}),
    'load-ordinary': Flavor(1, 0, {}),
    'load-pinned': Flavor(2, 2, {'hw:cpu_policy': 'dedicated'}),
    'load-mixed': Flavor(4, 2, {'hw:cpu_policy': 'mixed',
                                'hw:cpu_dedicated_mask': '0-1'}),
}
#: Numbers of servers that bursts create at once.
NUMBERS = (40, 200)
#: A burst repeats these flavors. It asks for more CPUs of each row than two
#: hosts have.
ORDER = ('load-low', 'load-high', 'load-ordinary', 'load-low', 'load-pinned',
         'load-low', 'load-mixed', 'load-ordinary')


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a burst.

    ``failed`` has the errors of creates that the API did not accept.
    ``servers`` are all other servers, as the API shows them after they have
    settled or the time is over. ``snapshot`` is a state.Snapshot of that time.
    """

    failed: list
    servers: list
    snapshot: state.Snapshot

    @property
    def sold(self):
        """Dict, host -> row -> CPUs in use by its guests.

        With plain Nova, low-priority guests are ordinary.
        """
        return {host.name: _sold(host) for host in self.snapshot.hosts}

    @property
    def sellable(self):
        """Dict, host -> row -> CPUs that the host may sell."""
        return {host.name: host.sellable for host in self.snapshot.hosts}

    @property
    def oversold(self):
        """Dict, host -> row -> CPUs in use beyond the sellable ones."""
        return {host: {row: max(0, units - self.sellable[host][row])
                       for row, units in rows.items()}
                for host, rows in self.sold.items()}

    @property
    def overallocated(self):
        """Dict, host -> resource class -> units allocated above capacity."""
        return {provider.name: {
            name: max(0, provider.usages[name] - int(
                (inventory['total'] - inventory['reserved']) *
                inventory['allocation_ratio']))
            for name, inventory in provider.inventories.items()}
            for provider in self.snapshot.providers}

    @property
    def allocations(self):
        """Dict, consumer -> Counter, resource class -> allocated units.

        If a server has allocations on both hosts, the value is their sum.
        """
        found = {server.id: collections.Counter() for server in self.servers}
        for provider in self.snapshot.providers:
            for consumer, units in provider.allocations.items():
                found.setdefault(consumer, collections.Counter()).update(units)
        return found

    @property
    def record(self):
        """The figures to record, JSON."""
        return json.dumps({name: getattr(self, name) for name in (
            'sellable', 'sold', 'oversold', 'overallocated')})

    def of(self, status):
        """Return the servers with a status."""
        return [server for server in self.servers if server.status == status]


def _sold(host):
    """Return dict, row -> CPUs in use by the guests of a state.Host."""
    found = {'high': 0, 'low': 0, 'ordinary': 0}
    for domain in host.domains:
        shared = host.shared_vcpus(domain)
        found['high'] += len(host.pins(domain))
        found['low'] += shared
        found['ordinary'] += 0 if domain.is_low else shared
    return found


class Load:
    """Create servers of all classes at once, on all hosts."""

    def __init__(self, layout):
        self._layout = layout
        self._connection = catalog.connect(layout)

    def prepare(self):
        """Create the flavors."""
        compute = self._connection.compute
        for name, flavor in FLAVORS.items():
            created = compute.create_flavor(
                name=name, vcpus=flavor.vcpus, ram=MEMORY_MB, disk=DISK_GB)
            compute.create_flavor_extra_specs(created, flavor.extra_specs)

    def clean(self):
        """Delete the flavors."""
        compute = self._connection.compute
        for name in FLAVORS:
            compute.delete_flavor(compute.find_flavor(name))

    def burst(self, number):
        """Create a number of servers at once and return the Outcome."""
        compute = self._connection.compute
        flavors = {name: compute.find_flavor(name).id for name in FLAVORS}
        image = self._connection.image.find_image('guest').id
        start = threading.Barrier(number)

        def create(index, flavor):
            start.wait()
            return compute.create_server(
                name='%s-%d' % (flavor, index), flavor_id=flavors[flavor],
                image_id=image, networks='none')

        with concurrent.futures.ThreadPoolExecutor(number) as pool:
            creates = [pool.submit(create, *each) for each in zip(
                range(number), itertools.cycle(ORDER))]
        return Outcome(
            failed=[each.exception() for each in creates if each.exception()],
            servers=self._settled(),
            snapshot=snapshots.read_all(self._layout, self._connection))

    @tenacity.retry(
        retry=tenacity.retry_if_result(lambda servers: any(
            server.status == 'BUILD' or server.task_state
            for server in servers)),
        stop=tenacity.stop_after_delay(SECONDS), wait=tenacity.wait_fixed(2),
        # Return servers that are stuck: the caller handles them.
        retry_error_callback=lambda state: state.outcome.result())
    def _settled(self):
        return self._servers()

    def _servers(self):
        return [server for server in self._connection.compute.servers()
                if server.name.startswith('load-')]

    def delete_servers(self):
        """Delete all servers of a burst.

        :raises tenacity.RetryError: if servers still exist after SECONDS
        """
        compute = self._connection.compute
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(compute.delete_server, self._servers()))
        waiting.soon(lambda: not self._servers(), every=2, within=SECONDS)


def expected_allocation(server):
    """Return the expected allocation of a server, a Counter."""
    flavor = FLAVORS[server.name.rpartition('-')[0]]
    # The sum of two Counters has no zeros.
    return collections.Counter() + collections.Counter(
        PCPU=flavor.dedicated, VCPU=flavor.vcpus - flavor.dedicated,
        MEMORY_MB=MEMORY_MB, DISK_GB=DISK_GB)
