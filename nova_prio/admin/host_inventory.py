# SPDX-License-Identifier: Apache-2.0

"""What the hosts of a cloud report, read from Nova's databases.

Nova's own objects read them: no API shows the statistics of a compute node,
which the report is in.
"""

import collections
import typing

from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.main import api as main_db
from nova import objects
from nova import rpc
from oslo_db import exception as db_exception
from oslo_utils import importutils
import sqlalchemy.exc

from nova_prio.api import flavor_preview
from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.virt import demand

#: What a database that cannot be read raises.
DATABASE_ERRORS = (db_exception.DBError, db_exception.CantStartEngineError,
                   sqlalchemy.exc.SQLAlchemyError, ImportError)


class LowRow(typing.NamedTuple):
    """CPUs that a low-priority instance floats on, and vCPUs for sale."""

    floating: int
    sellable: int

    def units(self, vcpus):
        """Return how many instances of a size are sold, if nothing else is."""
        return self.sellable // vcpus if vcpus <= self.floating else 0


class HostCapacity(typing.NamedTuple):
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
    def low_rows(self):
        """The LowRow without mix, and the one with it; it needs a report."""
        dedicated, shared = (
            len(host_report.parse_cpu_set(cpus)) for cpus in (
                self.report.cpu_dedicated_set, self.report.cpu_shared_set))
        ratio = capacity.parse_ratio(self.report.cpu_allocation_ratio)
        without, mixed = (
            LowRow(shared + dedicated * mix, capacity.calculate_sellable(
                dedicated, shared, ratio, mix).low) for mix in (False, True))
        # nova-compute takes no other sets for mix.
        return without, mixed if dedicated and shared else without

    def units(self, kind):
        """Return for how many equal instances the CPUs have room.

        That is none where the host is not for them. Neither NUMA cells nor
        memory are looked at, which may leave room for fewer.

        :param kind: ``demand.ResourceRequest`` of one of them
        """
        is_open = (
            any(map(aggregate_metadata.is_marked, self.aggregates))
            if kind.priority else
            not any(map(aggregate_metadata.excludes_ordinary, self.aggregates)))
        if not is_open or any(admission.find_refusals(
                self.report, kind, self.report.room, kind.memory_mb)):
            return 0
        return min(left // needed for needed, left in zip(
            kind.needed_rows, self.report.room) if needed)


def get_resource_request(flavor, hints=None):
    """Return the ``demand.ResourceRequest`` of an instance of a flavor.

    :param flavor: nova.objects.Flavor
    :param hints: dict of scheduler hints, or None
    :raises nova_prio.model.flavor_specs.RequestRefused: where it contradicts itself
    :raises nova.exception.NovaException: where stock Nova refuses it
    """
    return demand.ResourceRequest.from_flavor(*flavor_preview.fit_request(
        flavor, objects.ImageMeta.from_dict({}), hints or {}))


def list_hosts(context):
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
        found += [HostCapacity(node.host, *read_report(node), aggregates[node.host],
                               node.uuid, node.free_ram_mb) for node in nodes]
    return sorted(found, key=lambda host: host.name), silent


def read_report(node):
    """Return what a compute node reports, and why it cannot be read.

    :param node: nova.objects.ComputeNode
    :returns: (HostReport or None, sentence or None)
    """
    try:
        return host_report.HostReport.from_stats(node.stats), None
    except host_report.UnreadableReport as error:
        return None, str(error)


def connect_databases(conf):
    """Let Nova's objects read the databases, as nova-status does.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``, with its files read
    """
    objects.register_all()
    # Registers what cells may take from the options.
    rpc.init(conf)
    # Nova looks at its options where it is installed.
    profiler = importutils.try_import('osprofiler.opts')
    if profiler:
        profiler.set_defaults(conf)
    for group, database in (('database', main_db), ('api_database', api_db)):
        # Services wait for a database that starts later; a check need not.
        conf.set_override('max_retries', 0, group=group)
        database.configure(conf)
