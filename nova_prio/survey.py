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

"""What the hosts of a cloud report, read from Nova's databases.

Nova's own objects read them: no API shows the statistics of a compute node,
which the report is in.
"""

import collections
import typing

from nova import context as nova_context
from nova import objects
from oslo_db import exception as db_exception
import sqlalchemy.exc

from nova_prio import admission
from nova_prio.api import compiled
from nova_prio import capacity
from nova_prio import demand
from nova_prio.objects import host_report
from nova_prio import priority_hosts

#: What a database that cannot be read raises.
DATABASE_ERRORS = (db_exception.DBError, db_exception.CantStartEngineError,
                   sqlalchemy.exc.SQLAlchemyError, ImportError)


class Kind(typing.NamedTuple):
    """What an instance of a flavor needs, as ``admission`` reads it."""

    priority: str | None
    drawn: capacity.Rows
    vcpus: int
    memory_mb: int
    wants_whole_cores: bool


class LowRow(typing.NamedTuple):
    """CPUs that a low-priority instance floats on, and vCPUs for sale."""

    floating: int
    sellable: int

    def units(self, vcpus):
        """Return how many instances of a size are sold, if nothing else is."""
        return self.sellable // vcpus if vcpus <= self.floating else 0


class Gain(typing.NamedTuple):
    """The LowRow of a host ``without`` mix, and the one ``mixed``."""

    without: LowRow
    mixed: LowRow


class Host(typing.NamedTuple):
    """One compute host of a cloud.

    ``report`` is a HostReport, or None where the host runs another driver or
    ``problem``, a sentence, says why it cannot be read; ``aggregates`` is a
    list of nova.objects.Aggregate. ``uuid`` is that of its compute node and
    resource provider, ``free_memory_mb`` what of its memory is sold to nobody.
    """

    name: str
    report: host_report.HostReport | None
    problem: str | None
    aggregates: list
    uuid: str | None = None
    free_memory_mb: int = 0

    @property
    def room(self):
        """The ``capacity.Rows`` that are left; of a host with a report."""
        return self.report.room

    @property
    def low_gain(self):
        """The Gain of a host with a report: what mix does for its low row."""
        dedicated, shared = (
            len(host_report.cpu_set(cpus)) for cpus in (
                self.report.cpu_dedicated_set, self.report.cpu_shared_set))
        ratio = capacity.exact_ratio(self.report.cpu_allocation_ratio)
        without, mixed = (
            LowRow(shared + dedicated * mix, capacity.sellable(
                dedicated, shared, ratio, mix).low) for mix in (False, True))
        # nova-compute takes no other sets for mix.
        return Gain(without, mixed if dedicated and shared else without)

    def units(self, kind):
        """Return how many instances of a Kind the CPUs have room for.

        That is none where the host is not for them. Neither NUMA cells nor
        memory are looked at, which may leave room for fewer.
        """
        is_open = (
            any(map(priority_hosts.is_marked, self.aggregates))
            if kind.priority else
            not any(map(priority_hosts.keeps_ordinary_off, self.aggregates)))
        if not is_open or any(admission.refusals(
                self.report, kind, self.room, kind.memory_mb)):
            return 0
        return min(left // needed for needed, left in zip(
            kind.drawn, self.room) if needed)


def kind_of(flavor, hints=None):
    """Return the Kind that instances of a flavor are of.

    :param flavor: nova.objects.Flavor
    :param hints: dict of scheduler hints, or None
    :raises nova_prio.policy.RequestRefused: where it contradicts itself
    :raises nova.exception.NovaException: where stock Nova refuses it
    """
    flavor, topology = compiled.fitted(
        flavor, objects.ImageMeta.from_dict({}), hints or {})
    needs = demand.of(flavor, topology)
    return Kind(needs.priority, capacity.drawn(needs), flavor.vcpus,
                flavor.memory_mb, demand.wants_whole_cores(flavor, topology))


def hosts(context):
    """Return the hosts of all cells that answer, and the other cells.

    :param context: nova.context.RequestContext
    :returns: (list of Host in the order of their names, list of str, UUIDs of
        cells)
    """
    aggregates = collections.defaultdict(list)
    for aggregate in objects.AggregateList.get_all(context):
        for name in aggregate.hosts:
            aggregates[name].append(aggregate)
    found, silent = [], []
    answers = nova_context.scatter_gather_skip_cell0(
        context, objects.ComputeNodeList.get_all)
    for cell, nodes in answers.items():
        if nova_context.is_cell_failure_sentinel(nodes):
            silent.append(cell)
            continue
        found += [Host(node.host, *report_of(node), aggregates[node.host],
                       node.uuid, node.free_ram_mb) for node in nodes]
    return sorted(found, key=lambda host: host.name), silent


def report_of(node):
    """Return what a compute node reports, and why it cannot be read.

    :param node: nova.objects.ComputeNode
    :returns: (HostReport or None, sentence or None)
    """
    try:
        return host_report.HostReport.from_stats(node.stats), None
    except host_report.UnreadableReport as error:
        return None, str(error)
