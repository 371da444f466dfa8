# SPDX-License-Identifier: Apache-2.0

"""The request for an instance, read once for all hosts."""

import collections.abc
import dataclasses
import functools

from nova import context
from nova.objects import fields

from nova_prio.model import aggregate_metadata
from nova_prio.scheduler import numa_fit
from nova_prio.scheduler import request_filter
from nova_prio.virt import demand


@dataclasses.dataclass(frozen=True)
class SchedulingRequest(demand.ResourceRequest):
    """The resources that an instance requests, and more for the scheduler.

    ``uuid`` is the UUID of the instance. ``numa_fit`` is None if the instance
    has no NUMA topology. ``requires_threads`` tells whether pinned vCPUs need
    thread siblings. ``source_cell_uuid`` is the UUID of the cell of Nova from
    which an instance moves, or None. ``allows_priority`` and
    ``excludes_ordinary`` are functions of ``aggregate_metadata`` with a cache:
    hosts share aggregates.
    """

    uuid: str
    numa_fit: numa_fit.NumaFit | None
    requires_threads: bool
    source_cell_uuid: str | None
    allows_priority: collections.abc.Callable
    excludes_ordinary: collections.abc.Callable

    @functools.cached_property
    def is_new(self):
        """Whether the instance is being created, as the database says."""
        return request_filter.is_new_instance(
            context.get_admin_context(), self.uuid)


def read_request(spec_obj):
    """Return the SchedulingRequest of a request spec.

    :param spec_obj: nova.objects.RequestSpec, never written to
    """
    topology = spec_obj.numa_topology
    fit = None
    if topology is not None:
        network_metadata = None
        if 'network_metadata' in spec_obj:
            network_metadata = spec_obj.network_metadata
        fit = numa_fit.NumaFit(
            topology=topology,
            pci_requests=(spec_obj.pci_requests and
                          spec_obj.pci_requests.requests),
            network_metadata=network_metadata)
    # These two functions take an aggregate. Many hosts share an aggregate:
    # with the caches, the request evaluates each aggregate once.
    allows_priority = functools.cache(aggregate_metadata.allows_priority)
    excludes_ordinary = functools.cache(aggregate_metadata.excludes_ordinary)
    return SchedulingRequest.from_flavor(
        spec_obj.flavor, topology,
        uuid=spec_obj.instance_uuid,
        numa_fit=fit,
        requires_threads=_requires_threads(
            spec_obj.flavor.extra_specs, spec_obj.image.properties),
        source_cell_uuid=_get_source_cell_uuid(spec_obj),
        allows_priority=allows_priority,
        excludes_ordinary=excludes_ordinary)


def _requires_threads(extra_specs, properties):
    """Return whether the pinned vCPUs of an instance need thread siblings.

    As in Nova's NUMATopologyFilter, this is so only with the dedicated policy.
    For the mixed policy, Nova's NUMA fit tests the thread siblings.

    :param extra_specs: dict, those of the flavor
    :param properties: nova.objects.ImageMetaProps
    """
    policies = (extra_specs.get('hw:cpu_policy'),
                properties.get('hw_cpu_policy'))
    thread_policies = (extra_specs.get('hw:cpu_thread_policy'),
                       properties.get('hw_cpu_thread_policy'))
    return (fields.CPUAllocationPolicy.DEDICATED in policies and
            fields.CPUThreadAllocationPolicy.REQUIRE in thread_policies)


def _get_source_cell_uuid(spec_obj):
    """Return the UUID of the cell from which an instance moves, or None.

    Nova's conductor writes this cell into the requested destination.
    """
    if 'requested_destination' not in spec_obj:
        return None
    destination = spec_obj.requested_destination
    if not destination or 'cell' not in destination or not destination.cell:
        return None
    return destination.cell.uuid
