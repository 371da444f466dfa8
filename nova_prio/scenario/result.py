# SPDX-License-Identifier: Apache-2.0

"""The result of a scenario as data, and CPU sets as text; pure."""

import dataclasses

from lxml import etree

from nova_prio.model import capacity

ROWS = capacity.Rows._fields


class PlayFailed(Exception):
    """The player cannot finish the scenario; its text is one sentence."""


@dataclasses.dataclass
class Server:
    """One server of the scenario.

    ``cpus`` is None without a guest. If vCPUs are pinned or confined to a
    NUMA cell, ``cpus`` is a list of lists, the host CPUs of each vCPU. If all
    vCPUs float over the same CPUs, ``cpus`` is a flat list.

    ``priority`` is 'high', 'low' or None; of a refused server, the requested
    one. ``faults`` is a dict, number of a refused step to text: the step and
    Nova's message in the first line, then a line for each reason.
    """

    name: str
    id: str | None = None
    priority: str | None = None
    status: str = 'REFUSED'
    host: str | None = None
    cpus: list | None = None
    partition: str | None = None
    faults: dict = dataclasses.field(default_factory=dict)

    @property
    def pins(self):
        """Dict, vCPU to host CPU, of the pinned vCPUs."""
        return {number: cpus[0] for number, cpus in enumerate(self.cpus or ())
                if isinstance(cpus, list) and len(cpus) == 1}

    @property
    def floats_on(self):
        """The frozenset of host CPUs on which the other vCPUs float."""
        return frozenset().union(*(
            cpus if isinstance(cpus, list) else [cpus]
            for number, cpus in enumerate(self.cpus or ())
            if number not in self.pins))

    def document(self):
        """Return the server as a dict; ``fault`` joins all faults, or None."""
        document = dataclasses.asdict(self)
        document['fault'] = '\n'.join(document.pop('faults').values()) or None
        return document


@dataclasses.dataclass
class Host:
    """One host of the scenario.

    ``classes`` is a dict, row to dict of sellable and used CPUs, or None if
    the host runs the stock driver. ``inventory`` (resource class to
    inventory) and ``allocations`` (consumer to allocation) come from
    Placement. ``state`` is 'up' or 'down'. ``domains`` is a dict, key of
    aggregate metadata to value, from the widest failure domain to the
    narrowest.
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
    def remaining(self):
        """Dict, row to CPUs that one more instance of that row can get."""
        remaining = {row: max(cpus['sellable'] - cpus['used'], 0)
                     for row, cpus in (self.classes or {}).items()}
        if remaining:
            # An ordinary instance draws from the low row too.
            remaining['ordinary'] = min(remaining['low'],
                                        remaining['ordinary'])
        return remaining


@dataclasses.dataclass
class Result:
    """The servers and hosts, and one line for each failed expectation."""

    servers: list
    hosts: list
    surprises: list = dataclasses.field(default_factory=list)

    def document(self):
        """Return the dict that ``--format json`` prints."""
        return {
            'servers': [server.document() for server in self.servers],
            'hosts': [{key: getattr(host, key) for key in (
                'name', 'state', 'domains', 'classes', 'inventory',
                'allocations')} for host in self.hosts],
        }


def parse_cpus(text):
    """Return the frozenset of CPU numbers of a text such as "0-7,^3".

    :raises ValueError: if a number or range is malformed
    """
    included, excluded = set(), set()
    for part in text.split(','):
        part = part.strip()
        first, dash, last = part.lstrip('^').partition('-')
        cpus = range(int(first), int(last if dash else first) + 1)
        if not cpus:
            raise ValueError('range %s ends before it starts' % part)
        (excluded if part.startswith('^') else included).update(cpus)
    return frozenset(included - excluded)


def format_cpus(cpus):
    """Return CPU numbers as text such as "0-2,5"; "" if there are none."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ','.join('-'.join(map(str, ends)) for ends in ranges)


def parse_guest(xml, host_cpus):
    """Return the CPUs, as in :class:`Server`, and the partition of a guest.

    :param xml: str, the domain XML
    :param host_cpus: number of CPUs of the host; without pins and cpuset the
        guest floats on all of them
    """
    domain = etree.fromstring(xml)
    pins = {int(pin.get('vcpu')): sorted(parse_cpus(pin.get('cpuset')))
            for pin in domain.findall('cputune/vcpupin')}
    cpuset = domain.find('vcpu').get('cpuset')
    cpus = ([pins[number] for number in sorted(pins)] or
            (sorted(parse_cpus(cpuset)) if cpuset else [*range(host_cpus)]))
    return cpus, domain.findtext('resource/partition')
