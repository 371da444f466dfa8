# SPDX-License-Identifier: Apache-2.0

"""Hosts that have set some of their memory aside as huge pages."""

from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt
from oslo_utils import units

from tests.functional import base


class Hosts(base.FunctionalTest):
    """A test environment whose hosts have pools of huge pages.

    ``pages`` is the pages of 1 GiB in each NUMA cell of a host that is started
    next.
    """

    pages = 0

    def start_compute(self, hostname, host_info=None, *args, **kwargs):
        """Start a compute with pages of 4 KiB and of 1 GiB, as libvirt does.

        libvirt counts the memory outside of the pools as pages of 4 KiB.
        """
        if host_info:
            host_info.numa_topology = self.make_topology(host_info)
        return super().start_compute(
            hostname, host_info, *args, **kwargs)

    def make_topology(self, host_info):
        """Return the topology of a host with the present ``pages``."""
        small_kb = (host_info.kB_mem // host_info.cpu_nodes -
                    self.pages * units.Mi)
        return fakelibvirt.NUMATopology(
            host_info.cpu_nodes, 1, host_info.cpu_cores,
            host_info.cpu_threads, host_info.kB_mem,
            [fakelibvirt.create_mempages(
                [(4, small_kb // 4), (units.Mi, self.pages)])
             for _ in range(host_info.cpu_nodes)])

    def free_pages(self, host):
        """Return the number of free pages of 1 GiB in each cell."""
        with self.record(host) as node:
            cells = objects.NUMATopology.obj_from_db_obj(
                node.numa_topology).cells
        return [pages.total - pages.used for cell in cells
                for pages in cell.mempages if pages.size_kb == units.Mi]
