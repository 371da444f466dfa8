# SPDX-License-Identifier: Apache-2.0

"""The result of a scenario as data, and CPU sets as text; pure.

A row of a host is its capacity for servers of one class. The classes are
'high', 'low' and 'ordinary'; an ordinary server has no priority. A fault is
the text of a refusal. A vCPU floats if it is not pinned to one host CPU.
"""

import dataclasses

from lxml import etree

#: Begins the line above the reasons if Placement has no candidate.
NO_CANDIDATE = 'Placement has no candidate for '


class PlayFailed(Exception):
    """The player cannot finish the scenario; its text is one sentence."""


@dataclasses.dataclass
class Server:
    """One server of the scenario.

    ``cpus`` is None if the server has no guest. If all vCPUs float on the same
    host CPUs, ``cpus`` is the list of these CPUs. If vCPUs are pinned or
    confined to a NUMA cell, ``cpus`` has a list of host CPUs for each vCPU.

    ``priority`` is 'high', 'low' or None; for a refused server, it is the
    requested priority. ``partition`` is the cgroup of the guest, None without
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
    def row(self):
        """The class of the server: 'high', 'low' or 'ordinary'."""
        return self.priority or 'ordinary'

    @property
    def pinned_on(self):
        """The list of host CPUs that a vCPU is pinned on."""
        return [cpus[0] for cpus in self._get_cpu_lists() if len(cpus) == 1]

    @property
    def floats_on(self):
        """The frozenset of host CPUs on which the other vCPUs float."""
        lists = self._get_cpu_lists()
        if not lists:
            return frozenset(self.cpus or ())
        floating = set()
        for cpus in lists:
            if len(cpus) > 1:
                floating.update(cpus)
        return frozenset(floating)

    def _get_cpu_lists(self):
        """Return the host CPUs of each vCPU; [] if all vCPUs float."""
        return [cpus for cpus in self.cpus or () if isinstance(cpus, list)]

    def to_dict(self):
        """Return the server as a dict; ``fault`` joins all faults, or None."""
        document = dataclasses.asdict(self)
        document['fault'] = _join_faults(document.pop('faults'))
        return document


@dataclasses.dataclass
class Result:
    """The result of all steps.

    ``servers`` is a list of Server, ``hosts`` a list of dicts as
    :meth:`nova_prio_scenario.stage.Stage.get_host` returns them, and
    ``surprises`` has a line for each step that did not end as expected.
    ``host_faults`` is a dict, name of a host to ``faults`` as of a Server.
    """

    servers: list
    hosts: list
    surprises: list = dataclasses.field(default_factory=list)
    host_faults: dict = dataclasses.field(default_factory=dict)

    def to_dict(self):
        """Return the dict that ``--format json`` prints."""
        hosts = []
        for host in self.hosts:
            fault = _join_faults(self.host_faults.get(host['name'], {}))
            hosts.append(host | {'fault': fault})
        return {'servers': [server.to_dict() for server in self.servers],
                'hosts': hosts}


def list_faults(servers, host_faults):
    """Return (name, ``faults``) of all servers, and of hosts with a fault.

    :param servers: list of Server
    :param host_faults: dict, name of a host to ``faults`` as of a Server
    """
    named_faults = [(server.name, server.faults) for server in servers]
    named_faults.extend(host_faults.items())
    return named_faults


def _join_faults(faults):
    """Return the texts of faults as one text; None without faults.

    :param faults: dict, number of a refused step to text
    """
    return '\n'.join(faults.values()) or None


def name_aggregate(metadata):
    """Return the name of the host aggregate with these metadata.

    :param metadata: dict, str to str
    """
    return ','.join('%s=%s' % pair for pair in sorted(metadata.items()))


def parse_cpus(text):
    """Return the frozenset of CPU numbers of a text such as "0-7,^3".

    :raises ValueError: if a number or range is malformed
    """
    included, excluded = set(), set()
    for part in text.split(','):
        first, dash, last = part.lstrip('^').partition('-')
        if not dash:
            last = first
        cpus = range(int(first), int(last) + 1)
        if not cpus:
            raise ValueError('range %s ends before it starts' % part)
        if part.startswith('^'):
            excluded.update(cpus)
        else:
            included.update(cpus)
    return frozenset(included - excluded)


def format_cpus(cpus):
    """Return CPU numbers as text such as "0-2,5"; "" if there are none.

    :param cpus: set of CPU numbers, or another iterable
    """
    cpus = sorted(cpus)
    firsts = [cpu for cpu in cpus if cpu - 1 not in cpus]
    lasts = [cpu for cpu in cpus if cpu + 1 not in cpus]
    ranges = []
    for first, last in zip(firsts, lasts):
        if first == last:
            ranges.append(str(first))
        else:
            ranges.append('%d-%d' % (first, last))
    return ','.join(ranges)


def parse_guest(xml, host_cpus):
    """Return the CPUs and the partition of a guest, both as in Server.

    :param xml: str, the domain XML
    :param host_cpus: number of CPUs of the host; a guest without pins and
        without cpuset floats on all of these CPUs
    """
    domain = etree.fromstring(xml)
    pins = {int(pin.get('vcpu')): sorted(parse_cpus(pin.get('cpuset')))
            for pin in domain.findall('cputune/vcpupin')}
    cpuset = domain.find('vcpu').get('cpuset')
    if pins:
        cpus = [pins[vcpu] for vcpu in sorted(pins)]
    elif cpuset:
        cpus = sorted(parse_cpus(cpuset))
    else:
        cpus = list(range(host_cpus))
    return cpus, domain.findtext('resource/partition')
