# SPDX-License-Identifier: Apache-2.0

"""Compute hosts as the planner of moves sees them."""

import dataclasses

from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.admin.fleet import fleet_hosts
from nova_prio.admin import host_inventory
from nova_prio.model.planner import gain
from nova_prio.model.planner import host_fit
from tests.unit.model.planner import fleets
from tests.unit import nova_objects


def make_host(pages_of_2_mib):
    """Return a host of 4096 MB with stock Nova, for the planner."""
    cell = nova_objects.numa_cell(0, (), range(12))
    cell.mempages.append(objects.NUMAPagesTopology(
        size_kb=2048, total=pages_of_2_mib, used=0))
    node = objects.ComputeNode(
        uuid=uuids.node, host='host1', stats={}, vcpus=12, vcpus_used=0,
        memory_mb=4096, memory_mb_used=0, free_ram_mb=4096, local_gb=100,
        local_gb_used=0, free_disk_gb=100, cpu_allocation_ratio=2.0,
        ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
        numa_topology=objects.NUMATopology(cells=[cell])._to_json())
    return fleet_hosts.make_host(host_inventory.HostRecord(
        node=node, cell=uuids.cell, service=None, aggregates=()), (),
        has_shared_disks=False)


def test_huge_pages_limit_the_guests_that_mix_would_add():
    """Of 4096 MB, 1024 MB are small pages: one of two guests fits."""
    fit = host_fit.HostFit.from_host(make_host(pages_of_2_mib=1536))
    needs = fleets.make_needs('low', shared=1, memory_mb=1000)
    cpus = gain.divide(fit, gain.Setup(2, mix=True), step=6, steps=12)
    for mix, number in (False, 4), (True, 1):
        configured = gain.configure(fit, dataclasses.replace(cpus, mix=mix))
        assert number == configured.fill(needs, 9)[1]
    assert make_host(pages_of_2_mib=0).report.small_pages is None
