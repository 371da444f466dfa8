# SPDX-License-Identifier: Apache-2.0

"""The result of a scenario, as data, and sets of CPUs as text; pure."""

import dataclasses

from lxml import etree

ROWS = ('high', 'low', 'ordinary')


class PlayFailed(Exception):
    """A scenario could not be played to its end, said in one sentence."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """Why a step was refused.

    ``step`` is its number; ``text`` has the step and the message of Nova in
    the first line, then a line for each reason.
    """

    step: int
    text: str


@dataclasses.dataclass
class Server:
    """One server of the scenario.

    ``cpus`` is a list of lists, the host CPUs of each vCPU, if they are
    pinned or held to their NUMA node; a flat list if all of them float over
    the same; None without a guest. ``priority`` is 'high', 'low' or None, for
    a refused server the one requested; ``partition`` is that of the guest.
    ``faults`` has a Fault for each step that was refused.
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
        return frozenset().union(*(
            cpus if isinstance(cpus, list) else [cpus]
            for number, cpus in enumerate(self.cpus or ())
            if number not in self.pins))

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
    a host without our driver; ``inventory`` and ``allocations`` come from
    Placement: resource class -> inventory, and consumer -> allocation.
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
            'hosts': [{key: getattr(host, key) for key in (
                'name', 'state', 'domains', 'classes', 'inventory',
                'allocations')} for host in self.hosts],
        }


def parse_cpus(text):
    """Return the frozenset of CPU numbers of a text such as "0-7,^3".

    The syntax is that of ``[compute] cpu_dedicated_set``.

    :raises ValueError: if a number or range is not one
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


def cpus_text(cpus):
    """Return CPU numbers as text such as "0-2,5"; "" for none."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ','.join('-'.join(map(str, ends)) for ends in ranges)


def guest(xml, host_cpus):
    """Return (cpus, partition) of a guest.

    :param xml: str, the domain XML
    :param host_cpus: number of CPUs of the host, for guests that may use all
    :returns: cpus as in :class:`Server`; the partition as str or None
    """
    domain = etree.fromstring(xml)
    pins = {int(pin.get('vcpu')): sorted(parse_cpus(pin.get('cpuset')))
            for pin in domain.findall('cputune/vcpupin')}
    cpuset = domain.find('vcpu').get('cpuset')
    cpus = ([pins[number] for number in sorted(pins)] or
            (sorted(parse_cpus(cpuset)) if cpuset else [*range(host_cpus)]))
    return cpus, domain.findtext('resource/partition')
