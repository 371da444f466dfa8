# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Bursts of creates at a live cloud, and what its hosts sold then.

All is read from the services' interfaces and from virsh; what a host may sell
is reckoned from its own configuration and its inventory in Placement.
"""

import collections
import concurrent.futures
import configparser
import dataclasses
import fractions
import itertools
import math
import threading
import typing
import xml.etree.ElementTree

import tenacity

from tests.live import catalog
from tests.live import client

#: Seconds until a server that is still being built counts as stuck.
SECONDS = 900
NAMESPACE = {'nova': 'http://openstack.org/xmlns/libvirt/nova/1.1'}


class Flavor(typing.NamedTuple):
    """A flavor, and how many of its vCPUs are dedicated."""

    vcpus: int
    dedicated: int
    is_low: bool
    extra_specs: dict


MEMORY_MB = 64
DISK_GB = 1
#: Name -> Flavor. They mean the same to a Nova that knows no priorities,
#: except that low is ordinary there.
FLAVORS = {
    'load-high': Flavor(2, 2, False, {'hw:cpu_priority': 'high',
                                      'hw:cpu_policy': 'dedicated'}),
    'load-low': Flavor(2, 0, True, {'hw:cpu_priority': 'low'}),
    'load-ordinary': Flavor(1, 0, False, {}),
    'load-pinned': Flavor(2, 2, False, {'hw:cpu_policy': 'dedicated'}),
    'load-mixed': Flavor(4, 2, False, {'hw:cpu_policy': 'mixed',
                                       'hw:cpu_dedicated_mask': '0-1'}),
}
#: How many servers the bursts create at once.
NUMBERS = (40, 200)
#: A burst repeats these: more than two hosts have, in each row.
ORDER = ('load-low', 'load-high', 'load-ordinary', 'load-low', 'load-pinned',
         'load-low', 'load-mixed', 'load-ordinary')


class Rows(typing.NamedTuple):
    """One whole number of CPUs for each row of a host."""

    high: int
    low: int
    ordinary: int


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a burst came to.

    ``failed`` are the errors of creates that the API did not accept,
    ``servers`` what it tells of all others once they settled, or time was up;
    ``held`` what Placement holds for each: UUID -> resource class -> units.
    ``sold`` and ``sellable`` are dicts, host -> Rows; ``excess`` is a dict,
    host -> resource class -> units in use beyond what Placement may give.
    """

    failed: list
    servers: list
    held: dict
    sold: dict
    sellable: dict
    excess: dict

    @property
    def oversold(self):
        """Dict, host -> Rows that it sold and should not have."""
        return {host: Rows(*(max(0, sold - allowed) for sold, allowed
                             in zip(rows, self.sellable[host])))
                for host, rows in self.sold.items()}

    def of(self, status):
        """Return the servers with a status."""
        return [server for server in self.servers if server.status == status]


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
        """Delete what ``prepare`` made."""
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
        servers = self._settled()
        return Outcome(
            failed=[each.exception() for each in creates if each.exception()],
            servers=servers,
            held={server.id: self.held(server.id) for server in servers},
            sold={host: self.sold(host) for host in self._layout.hosts},
            sellable={host: self.sellable(host)
                      for host in self._layout.hosts},
            excess={host: self.excess(host) for host in self._layout.hosts})

    @tenacity.retry(
        retry=tenacity.retry_if_result(lambda servers: any(
            server.status == 'BUILD' or server.task_state
            for server in servers)),
        stop=tenacity.stop_after_delay(SECONDS), wait=tenacity.wait_fixed(2),
        # What is stuck is for the caller to see.
        retry_error_callback=lambda state: state.outcome.result())
    def _settled(self):
        return self._servers()

    def _servers(self):
        return [server for server in self._connection.compute.servers()
                if server.name.startswith('load-')]

    def end(self):
        """Delete all servers of a burst.

        :raises tenacity.RetryError: where some stay
        """
        compute = self._connection.compute
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(compute.delete_server, self._servers()))
        tenacity.retry(
            retry=tenacity.retry_if_result(bool),
            stop=tenacity.stop_after_delay(SECONDS),
            wait=tenacity.wait_fixed(2))(self._servers)()

    def _ask_placement(self, path, *words):
        answer = self._connection.placement.get(path % words)
        answer.raise_for_status()
        return answer.json()

    def held(self, uuid):
        """Return what Placement holds for a server, a Counter."""
        found = collections.Counter()
        for of_provider in self._ask_placement(
                '/allocations/%s', uuid)['allocations'].values():
            found.update(of_provider['resources'])
        return found

    def _provider(self, host):
        provider, = self._connection.placement.resource_providers(name=host)
        return provider.id

    def _inventories(self, host):
        return self._ask_placement('/resource_providers/%s/inventories',
                                   self._provider(host))['inventories']

    def usages(self, host):
        """Return what is in use of a host: dict, resource class -> units."""
        return self._ask_placement('/resource_providers/%s/usages',
                                   self._provider(host))['usages']

    def excess(self, host):
        """Return what is in use beyond what Placement may give of a host."""
        usages = self.usages(host)
        return {name: max(0, usages[name] - int(
            (inventory['total'] - inventory['reserved']) *
            inventory['allocation_ratio']))
            for name, inventory in self._inventories(host).items()}

    def sellable(self, host):
        """Return the Rows that a host may sell."""
        options = configparser.ConfigParser()
        options.read(self._layout.etc / 'nova' / 'readme-compute.conf')
        dedicated, shared = (
            _size(options['compute']['cpu_%s_set' % name])
            for name in ('dedicated', 'shared'))
        ratio = fractions.Fraction(str(
            self._inventories(host)['VCPU']['allocation_ratio']))
        beyond = dedicated * max(ratio - 1, 0) if options.getboolean(
            'DEFAULT', 'cpu_priority_mix_enable', fallback=False) else 0
        return Rows(dedicated, math.floor(shared * ratio + beyond),
                    math.floor(shared * ratio))

    def sold(self, host):
        """Return the Rows of the guests that libvirt runs on a host."""
        high = low = ordinary = 0
        for name in client.virsh(self._layout, host, 'list', '--name').split():
            domain = xml.etree.ElementTree.fromstring(
                client.virsh(self._layout, host, 'dumpxml', name))
            flavor = domain.find('.//nova:flavor', NAMESPACE).get('name')
            pinned = sum(pin.get('cpuset').isdigit()
                         for pin in domain.iter('vcpupin'))
            shared = int(domain.findtext('vcpu')) - pinned
            high += pinned
            low += shared
            ordinary += 0 if FLAVORS[flavor].is_low else shared
        return Rows(high, low, ordinary)


def needs(server):
    """Return what Placement has to hold for a server, a Counter."""
    flavor = FLAVORS[server.name.rpartition('-')[0]]
    # Adding leaves out what is zero.
    return collections.Counter() + collections.Counter(
        PCPU=flavor.dedicated, VCPU=flavor.vcpus - flavor.dedicated,
        MEMORY_MB=MEMORY_MB, DISK_GB=DISK_GB)


def _size(text):
    """Return how many CPUs the text of a set such as 0-3,8 names."""
    ends = (part.split('-') for part in text.split(','))
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
