# SPDX-License-Identifier: Apache-2.0

"""What a request asks of a host, read once for all hosts."""

import dataclasses
import functools
import typing

from nova import context
from nova.objects import fields

from nova_prio.model import aggregate_metadata
from nova_prio.scheduler import numa_fit
from nova_prio.scheduler import request_filter
from nova_prio.virt import demand

_DEDICATED = fields.CPUAllocationPolicy.DEDICATED
_REQUIRE = fields.CPUThreadAllocationPolicy.REQUIRE


@dataclasses.dataclass(frozen=True)
class SchedulingRequest(demand.ResourceRequest):
    """One instance of a request, frozen.

    ``topology`` is its InstanceNUMATopology or None, ``pci_requests`` a list
    or None, ``network_metadata`` a NetworkMetadata or None.
    ``requires_threads`` tells whether pinned vCPUs want thread siblings.
    ``cell_memory_mb`` is the memory of its only cell if nothing but the
    numbers of free CPUs and memory of a cell decides whether it fits;
    otherwise ``nova_fit`` is the NovaFit that does.
    ``uuid`` is that of the instance. ``is_marked`` and ``keeps_ordinary_off``
    are those of ``priority_hosts``. They read each aggregate once: hosts share
    them. ``is_new``, without arguments, tells whether the instance is being
    created, and reads that once. ``source_cell`` is the UUID of the cell of an
    instance that moves, or None.
    """

    topology: object
    pci_requests: list | None
    network_metadata: object
    requires_threads: bool
    cell_memory_mb: int | None
    nova_fit: object
    uuid: str
    is_marked: typing.Callable
    keeps_ordinary_off: typing.Callable
    is_new: typing.Callable
    source_cell: str | None = None


def read_request(spec_obj):
    """Return the Request that is in a request spec.

    :param spec_obj: nova.objects.RequestSpec, never written to
    """
    topology = spec_obj.numa_topology
    pci_requests = spec_obj.pci_requests and spec_obj.pci_requests.requests
    network_metadata = (spec_obj.network_metadata
                        if 'network_metadata' in spec_obj else None)
    cell_memory_mb = _memory_of_plain_cell(
        topology, pci_requests, network_metadata)
    extra_specs = spec_obj.flavor.extra_specs
    properties = spec_obj.image.properties
    return SchedulingRequest.from_flavor(
        spec_obj.flavor, topology,
        topology=topology,
        pci_requests=pci_requests,
        network_metadata=network_metadata,
        requires_threads=(
            _DEDICATED in (extra_specs.get('hw:cpu_policy'),
                           properties.get('hw_cpu_policy')) and
            _REQUIRE in (extra_specs.get('hw:cpu_thread_policy'),
                         properties.get('hw_cpu_thread_policy'))),
        cell_memory_mb=cell_memory_mb,
        nova_fit=(None if topology is None or cell_memory_mb is not None
                  else numa_fit.NovaFit(topology, pci_requests)),
        uuid=spec_obj.instance_uuid,
        is_marked=functools.cache(aggregate_metadata.is_marked),
        keeps_ordinary_off=functools.cache(
            aggregate_metadata.excludes_ordinary),
        is_new=functools.cache(lambda: request_filter.is_new_instance(
            context.get_admin_context(), spec_obj.instance_uuid)),
        source_cell=_source_cell(spec_obj))


def _source_cell(spec_obj):
    """Return the UUID of the cell that a moving instance is in, or None."""
    destination = ('requested_destination' in spec_obj and
                   spec_obj.requested_destination)
    if not destination or 'cell' not in destination or not destination.cell:
        return None
    return destination.cell.uuid


def _memory_of_plain_cell(topology, pci_requests, network_metadata):
    if (topology is None or len(topology.cells) != 1 or pci_requests or
            network_metadata):
        return None
    cell = topology.cells[0]
    if (cell.cpu_policy != _DEDICATED or cell.cpu_thread_policy or
            ('pagesize' in cell and cell.pagesize)):
        return None
    return cell.memory
