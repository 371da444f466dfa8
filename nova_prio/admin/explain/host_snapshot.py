# SPDX-License-Identifier: Apache-2.0

"""Nova's HostManager for questions about all hosts at one point of time."""

from __future__ import annotations

import collections
from collections import abc
import functools
import inspect
import typing

from nova import context as nova_context
from nova.db.main import api as main_db
from nova import objects
from nova.scheduler import host_manager

from nova_prio.admin import host_inventory
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import start

if typing.TYPE_CHECKING:
    from nova.scheduler import filters


class _State(host_manager.HostState):
    """The state of a host, whose large parts are made when they are read.

    Few filters read them, and to make them takes Nova a third of the time.

    :param topologies: UUID of a compute node -> its NUMA topology, which the
        states of the node share; nothing changes a topology in place
    """

    _numa_topology_text: str
    _instance_uuids: abc.Collection[str] = ()

    def __init__(self, host: str, node: str, cell: str,
                 topologies: dict[str, objects.NUMATopology]) -> None:
        super().__init__(host, node, cell)
        # Nova has set an empty dict. Our property is a cached one, which an
        # attribute of the object with its name would hide.
        del self.instances
        self._topologies = topologies

    def update(self, compute: objects.ComputeNode,
               service: dict[str, typing.Any],
               aggregates: list[objects.Aggregate],
               instances: abc.Collection[str]) -> None:
        """Update the state from records, as Nova does.

        Nova would make objects of the NUMA topology, which takes long, and few
        filters need them. Keep its text for the property ``numa_topology``.
        Keep the UUIDs of the instances for the property ``instances``, which
        makes the objects; Nova's method would store what it gets as it is.

        :param instances: UUIDs of the instances
        """
        self._instance_uuids = instances
        # The pools of PCI devices need the NUMA topology at once.
        if not compute.numa_topology or compute.pci_device_pools:
            super().update(compute, service, aggregates)
            return
        self._numa_topology_text = compute.numa_topology
        # Hide the text while Nova's method runs.
        compute.numa_topology = None
        try:
            super().update(compute, service, aggregates)
        finally:
            compute.numa_topology = self._numa_topology_text
        # Nova has set the attribute to None, which would hide the property: it
        # is a cached one, and attributes of the object go before it.
        self.__dict__.pop('numa_topology', None)

    @functools.cached_property
    def numa_topology(self) -> objects.NUMATopology | None:
        """The NUMA topology of the host, made of its text at the first use.

        The states of a compute node share it. If the host reports none,
        ``update`` lets Nova set an attribute None in place of this property.
        """
        if self.uuid not in self._topologies:
            self._topologies[self.uuid] = objects.NUMATopology.obj_from_db_obj(
                self._numa_topology_text)
        return self._topologies[self.uuid]

    @functools.cached_property
    def instances(self) -> dict[str, objects.Instance]:
        """The instances of the host: UUID -> Instance with only this UUID.

        Nova's filters do not read more.
        """
        return {uuid: objects.Instance(uuid=uuid)
                for uuid in self._instance_uuids}


class Hosts(host_manager.HostManager):
    """The hosts of all cells, and the enabled filters of nova.conf.

    Nova's own code makes the host states and runs the filters. The records are
    read once, when the object is made. If nova.conf does not enable
    PriorityFilter, it takes the place of NUMATopologyFilter.

    ``nodes`` are pairs of a nova.objects.ComputeNode and the UUID of its cell.
    ``silent_cells`` are the UUIDs of the cells that do not answer.
    ``unusable_filters`` is a dict, name of a filter that cannot run here ->
    why.
    """

    enabled_filters: list[filters.BaseHostFilter]

    def __init__(self, context: nova_context.RequestContext) -> None:
        # Name of a filter -> why it cannot run here.
        self.unusable_filters: dict[str, str] = {}
        # UUID of a compute node -> its NUMA topology, for all states of it.
        self._topologies: dict[str, objects.NUMATopology] = {}
        # nova-scheduler checks its options when it loads our filter. Here,
        # the filters must load with any options.
        with start.unchecked():
            super().__init__()
        if not any(is_priority_filter(each) for each in self.enabled_filters):
            # This nova.conf is not that of a scheduler with our filter, which
            # does the work of NUMATopologyFilter too.
            self.enabled_filters = [
                each for each in self.enabled_filters
                if type(each).__name__ != 'NUMATopologyFilter']
            self.enabled_filters.append(priority_filter.PriorityFilter())
        # Read the compute nodes with Nova's own method, once. The method of
        # this class then answers from them. The records are UUID of a cell ->
        # its compute nodes; a cell that does not answer is missing.
        self._records, self._services = super()._get_computes_for_cells(
            context, list(self.cells.values()), None)
        self.silent_cells = [cell for cell in self.cells
                             if cell not in self._records]
        # Each compute node with the UUID of its cell.
        self.nodes: list[tuple[objects.ComputeNode, str]] = []
        # Name of a host -> UUIDs of its instances.
        self._uuids: dict[str, list[str]] = collections.defaultdict(list)
        for cell, nodes in self._records.items():
            self.nodes += [(node, cell) for node in nodes]
            with nova_context.target_cell(
                    context, self.cells[cell]) as cctxt:
                self._uuids.update(main_db.instance_get_all_uuids_by_hosts(
                    cctxt, [node.host for node in nodes]))

    def host_state_cls(self, host: str, node: str, cell: str,
                       **kwargs: typing.Any) -> host_manager.HostState:
        """Return a new state of a host.

        Nova calls this method, which has the name of a class.
        """
        return _State(host=host, node=node, cell=cell,
                      topologies=self._topologies)

    def _init_instance_info(self, *args: typing.Any) -> None:
        """Do not read all instances in a thread, as nova-scheduler does."""

    def _choose_host_filters(self, filter_cls_names: abc.Iterable[str],
                             ) -> list[filters.BaseHostFilter]:
        """Return the filters that can be loaded, and note the others.

        Nova's method loads all or none: call it for each filter.
        """
        chosen: list[filters.BaseHostFilter] = []
        for name in filter_cls_names:
            try:
                chosen += super()._choose_host_filters([name])
            # A filter of another package may raise anything.
            except Exception as error:
                self.unusable_filters[name] = (
                    host_inventory.format_first_line(error))
        return chosen

    def _get_instance_info(self, context: nova_context.RequestContext,
                           compute: objects.ComputeNode,
                           ) -> abc.Collection[str]:
        """Return the UUIDs of the instances of a host.

        Nova's method returns Instances. Nova passes the result to
        ``_State.update``, which takes UUIDs.
        """
        return self._uuids[compute.host]

    def _get_computes_for_cells(
            self, context: nova_context.RequestContext,
            cells: abc.Iterable[objects.CellMapping],
            compute_uuids: abc.Container[str],
    ) -> tuple[dict[str, list[objects.ComputeNode]],
               dict[str, objects.Service]]:
        """Return nodes and services as they were read at first.

        Nova's method, which this one replaces, would read the databases again.

        :returns: (UUID of a cell -> its compute nodes, name of a host -> its
            nova-compute)
        """
        found = {}
        for cell in cells:
            nodes = self._records.get(cell.uuid, ())
            found[cell.uuid] = [node for node in nodes
                                if node.uuid in compute_uuids]
        return found, self._services

    def make_state(self, context: nova_context.RequestContext,
                   uuid: str) -> host_manager.HostState:
        """Return a new state of a compute node, also of a disabled cell.

        :param uuid: UUID of the compute node
        """
        # UUID of a compute node -> UUID of its cell.
        cell_of = {node.uuid: cell_uuid for node, cell_uuid in self.nodes}
        mapping = self.cells[cell_of[uuid]]
        # Nova reads the hosts of a disabled cell only for a move within it.
        destination = objects.Destination(cell=mapping)
        state, = self.get_host_states_by_uuids(
            context, [uuid], objects.RequestSpec(
                requested_destination=destination))
        return state

    def run_filter(self, the_filter: filters.BaseHostFilter | None,
                   states: abc.Iterable[host_manager.HostState],
                   spec: objects.RequestSpec, index: int = 0,
                   ) -> list[host_manager.HostState]:
        """Return the host states that pass one filter.

        Nova's method also removes the hosts that the request ignores, and
        those other than the host that it names. If the request forces a host,
        Nova runs no filter. A filter that raises an error passes all, and is
        noted as unusable.

        :param the_filter: None for no filter: only these hosts are removed
        :param index: number of instances of the request that have a host. If
            there is one, Nova omits the filters that run once for a request.
        """
        states = list(states)
        # Nova's method runs all enabled filters: enable only this one.
        enabled = self.enabled_filters
        self.enabled_filters = [the_filter] if the_filter else []
        try:
            # The result is None if a filter ends the filtering: no host passes
            # then.
            return list(self.get_filtered_hosts(states, spec, index) or ())
        # A filter of another package may raise anything.
        except Exception as error:
            self.unusable_filters[type(the_filter).__name__] = (
                host_inventory.format_first_line(error))
            return states
        finally:
            self.enabled_filters = enabled

    def split(self, the_filter: filters.BaseHostFilter | None,
              states: list[host_manager.HostState],
              spec: objects.RequestSpec,
              ) -> tuple[list[host_manager.HostState],
                         list[host_manager.HostState]]:
        """Return the host states that pass one filter, and the others.

        The parameters are those of :meth:`run_filter`.
        """
        passing = self.run_filter(the_filter, states, spec)
        uuids = {state.uuid for state in passing}
        return passing, [each for each in states if each.uuid not in uuids]


def is_priority_filter(each: filters.BaseHostFilter) -> bool:
    """Return whether a filter is PriorityFilter."""
    return isinstance(each, priority_filter.PriorityFilter)


def describe_filter(each: filters.BaseHostFilter) -> str:
    """Return the first line of the docstring of a filter, else its name."""
    return host_inventory.format_first_line(
        inspect.getdoc(type(each)) or type(each).__name__)
