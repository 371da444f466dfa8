# SPDX-License-Identifier: Apache-2.0

"""Hosts with PCI devices."""

from nova.objects import fields
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import driver
from oslo_serialization import jsonutils
from oslo_utils import versionutils

from tests.functional import base


def make_alias(device):
    """Return an alias of virtual functions for nova.conf."""
    return jsonutils.dumps({**device, 'name': 'function',
                            'device_type': fields.PciDeviceType.SRIOV_VF})


class FunctionsOnHosts(base.FunctionalTest):
    """Each host has virtual functions; their alias is "function"."""

    FUNCTIONS = 3  # number on each host
    ADDITIONAL_FILTERS = ['PciPassthroughFilter']
    DEVICE = {'vendor_id': fakelibvirt.PCI_VEND_ID,
              'product_id': fakelibvirt.VF_PROD_ID, 'live_migratable': 'yes'}
    ALIASES = [make_alias(DEVICE)]

    def setUp(self):
        self.flags(device_spec=[jsonutils.dumps(self.DEVICE)],
                   alias=self.ALIASES, group='pci')
        super().setUp()

    def start_compute(self, hostname, host_info=None, *args, **kwargs):
        if args:
            # Nova's helper restarts a service, with the same hypervisor.
            return super().start_compute(hostname, host_info, *args, **kwargs)
        return super().start_compute(
            hostname, host_info, pci_info=fakelibvirt.HostPCIDevicesInfo(
                num_pci=0, num_pfs=1, num_vfs=self.FUNCTIONS),
            libvirt_version=versionutils.convert_version_to_int(
                driver.MIN_VFIO_PCI_VARIANT_LIBVIRT_VERSION),
            qemu_version=versionutils.convert_version_to_int(
                driver.MIN_VFIO_PCI_VARIANT_QEMU_VERSION), **kwargs)
