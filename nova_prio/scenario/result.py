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

"""What became of a scenario, as data; pure."""

import dataclasses

from lxml import etree

from nova_prio.scenario import cpu_set

ROWS = ('high', 'low', 'ordinary')


class PlayFailed(Exception):
    """A scenario could not be played to its end, said in one sentence."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """Why a step was refused.

    ``step`` is its number; ``text`` has the step and what Nova says in the
    first line, then a line for each reason.
    """

    step: int
    text: str


@dataclasses.dataclass
class Server:
    """One server of the scenario.

    ``cpus`` is a list of lists, the host CPUs of each vCPU, where they are
    pinned or held to their NUMA node; a flat list where all of them float
    over the same; None without a guest. ``priority`` is 'high', 'low' or
    None, for a refused server what was asked; ``partition`` is that of the
    guest. ``faults`` has a Fault for each step that was refused.
    """

    name: str
    id: str | None = None
    priority: str | None = None
    status: str = 'REFUSED'
    host: str | None = None
    cpus: list | None = None
    partition: str | None = None
    faults: list = dataclasses.field(default_factory=list)

    @property
    def pins(self):
        """Dict, vCPU -> host CPU, of the vCPUs that have one of their own."""
        return {number: cpus[0] for number, cpus in enumerate(self.cpus or ())
                if isinstance(cpus, list) and len(cpus) == 1}

    @property
    def floats_on(self):
        """The frozenset of host CPUs of its other vCPUs."""
        floating = set()
        for cpus in self.cpus or ():
            if not isinstance(cpus, list):
                floating.add(cpus)
            elif len(cpus) > 1:
                floating.update(cpus)
        return frozenset(floating)

    def document(self):
        """Return it as a dict; ``fault`` is all faults as one text or None."""
        found = dataclasses.asdict(self)
        found['fault'] = '\n'.join(
            fault['text'] for fault in found.pop('faults')) or None
        return found


@dataclasses.dataclass
class Host:
    """One host of the scenario.

    ``classes`` is a dict, row -> dict of sellable and used CPUs, or None for
    a host without our driver; ``inventory`` and ``allocations`` are what
    Placement holds: resource class -> inventory, and consumer -> allocation.
    ``state`` is 'up' or 'down'; ``domains`` a dict, key of aggregate metadata
    -> value, from the widest failure domain to the narrowest.
    """

    name: str
    cpus: int
    dedicated: frozenset
    shared: frozenset
    classes: dict | None = None
    inventory: dict = dataclasses.field(default_factory=dict)
    allocations: dict = dataclasses.field(default_factory=dict)
    state: str = 'up'
    domains: dict = dataclasses.field(default_factory=dict)

    @property
    def left(self):
        """Dict, row -> CPUs that one more instance of that class could get.

        An ordinary instance takes from the low row too.
        """
        found = {row: max(held['sellable'] - held['used'], 0)
                 for row, held in (self.classes or {}).items()}
        if found:
            found['ordinary'] = min(found['low'], found['ordinary'])
        return found


@dataclasses.dataclass
class Result:
    """The servers and hosts, and one line for each broken expectation."""

    servers: list
    hosts: list
    surprises: list = dataclasses.field(default_factory=list)

    def document(self):
        """Return it as the dict that ``--format json`` prints."""
        return {
            'servers': [server.document() for server in self.servers],
            'hosts': [{'name': host.name, 'state': host.state,
                       'domains': host.domains,
                       'classes': host.classes, 'inventory': host.inventory,
                       'allocations': host.allocations}
                      for host in self.hosts],
        }


def guest(xml, host_cpus):
    """Return (cpus, partition) of a guest.

    :param xml: str, the domain XML
    :param host_cpus: number of CPUs of the host, for guests that may use all
    :returns: cpus as in :class:`Server`; the partition as str or None
    """
    domain = etree.fromstring(xml)
    partition = domain.findtext('resource/partition')
    vcpu = domain.find('vcpu')
    pins = {int(pin.get('vcpu')): sorted(cpu_set.parse(pin.get('cpuset')))
            for pin in domain.findall('cputune/vcpupin')}
    if pins:
        return [pins[number] for number in sorted(pins)], partition
    if vcpu.get('cpuset'):
        return sorted(cpu_set.parse(vcpu.get('cpuset'))), partition
    return list(range(host_cpus)), partition
