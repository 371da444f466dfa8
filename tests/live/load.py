# SPDX-License-Identifier: Apache-2.0

"""Bursts of creates at a live cloud, and the CPUs that its hosts sold.

No code of this package counts the sold CPUs: see tests.live.look and state.
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
from tests.live import look
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
#: Name -> Flavor. They mean the same to a Nova that knows no priorities,
#: except that low is ordinary there.
FLAVORS = {
    'load-high': Flavor(2, 2, {'hw:cpu_priority': 'high',
                               'hw:cpu_policy': 'dedicated'}),
    'load-low': Flavor(2, 0, {'hw:cpu_priority': 'low'}),
    'load-ordinary': Flavor(1, 0, {}),
    'load-pinned': Flavor(2, 2, {'hw:cpu_policy': 'dedicated'}),
    'load-mixed': Flavor(4, 2, {'hw:cpu_policy': 'mixed',
                                'hw:cpu_dedicated_mask': '0-1'}),
}
#: How many servers the bursts create at once.
NUMBERS = (40, 200)
#: A burst repeats these: more than two hosts have, in each row.
ORDER = ('load-low', 'load-high', 'load-ordinary', 'load-low', 'load-pinned',
         'load-low', 'load-mixed', 'load-ordinary')


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a burst.

    ``failed`` are the errors of creates that the API did not accept,
    ``servers`` what it tells of all others once they settled, or time was up;
    ``snapshot`` is a state.Snapshot of that time.
    """

    failed: list
    servers: list
    snapshot: state.Snapshot

    @property
    def sold(self):
        """Dict, host -> row -> CPUs that its guests have.

        To plain Nova, guests of low priority are ordinary.
        """
        return {host.name: _sold(host) for host in self.snapshot.hosts}

    @property
    def sellable(self):
        """Dict, host -> row -> CPUs that it may sell."""
        return {host.name: host.sellable for host in self.snapshot.hosts}

    @property
    def oversold(self):
        """Dict, host -> row -> CPUs that it sold and should not have."""
        return {host: {row: max(0, units - self.sellable[host][row])
                       for row, units in rows.items()}
                for host, rows in self.sold.items()}

    @property
    def excess(self):
        """Dict, host -> resource class -> units in use above the capacity."""
        return {provider.name: {
            name: max(0, provider.usages[name] - int(
                (inventory['total'] - inventory['reserved']) *
                inventory['allocation_ratio']))
            for name, inventory in provider.inventories.items()}
            for provider in self.snapshot.providers}

    @property
    def held(self):
        """Dict, server -> resource class -> units that Placement holds.

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
            'sellable', 'sold', 'oversold', 'excess')})

    def of(self, status):
        """Return the servers with a status."""
        return [server for server in self.servers if server.status == status]


def _sold(host):
    found = {'high': 0, 'low': 0, 'ordinary': 0}
    for domain in host.domains:
        shared = host.shared_vcpus(domain)
        found['high'] += len(host.pins(domain))
        found['low'] += shared
        found['ordinary'] += 0 if domain.is_low else shared
    return found


class Load:
    """Creates servers of all classes at once, on all hosts."""

    def __init__(self, layout):
        self._layout = layout
        self._connection = catalog.connect(layout)

    def prepare(self):
        """Make the flavors."""
        compute = self._connection.compute
        for name, flavor in FLAVORS.items():
            made = compute.create_flavor(
                name=name, vcpus=flavor.vcpus, ram=MEMORY_MB, disk=DISK_GB)
            compute.create_flavor_extra_specs(made, flavor.extra_specs)

    def clean(self):
        """Delete the flavors."""
        compute = self._connection.compute
        for name in FLAVORS:
            compute.delete_flavor(compute.find_flavor(name))

    def burst(self, number):
        """Create that many servers at once; returns the Outcome."""
        compute = self._connection.compute
        flavors = {name: compute.find_flavor(name).id for name in FLAVORS}
        image = self._connection.image.find_image('guest').id
        start = threading.Barrier(number)

        def create(place, flavor):
            start.wait()
            return compute.create_server(
                name='%s-%d' % (flavor, place), flavor_id=flavors[flavor],
                image_id=image, networks='none')

        with concurrent.futures.ThreadPoolExecutor(number) as pool:
            creates = [pool.submit(create, *each) for each in zip(
                range(number), itertools.cycle(ORDER))]
        return Outcome(
            failed=[each.exception() for each in creates if each.exception()],
            servers=self._settled(),
            snapshot=look.at_all(self._layout, self._connection))

    @tenacity.retry(
        retry=tenacity.retry_if_result(lambda servers: any(
            server.status == 'BUILD' or server.task_state
            for server in servers)),
        stop=tenacity.stop_after_delay(SECONDS), wait=tenacity.wait_fixed(2),
        # The caller handles servers that are stuck.
        retry_error_callback=lambda state: state.outcome.result())
    def _settled(self):
        return self._servers()

    def _servers(self):
        return [server for server in self._connection.compute.servers()
                if server.name.startswith('load-')]

    def end(self):
        """Delete all servers of a burst.

        :raises tenacity.RetryError: if some servers stay
        """
        compute = self._connection.compute
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(compute.delete_server, self._servers()))
        waiting.soon(lambda: not self._servers(), every=2, within=SECONDS)


def needs(server):
    """Return the expected allocation of a server, a Counter."""
    flavor = FLAVORS[server.name.rpartition('-')[0]]
    # Adding drops zeros.
    return collections.Counter() + collections.Counter(
        PCPU=flavor.dedicated, VCPU=flavor.vcpus - flavor.dedicated,
        MEMORY_MB=MEMORY_MB, DISK_GB=DISK_GB)
