# SPDX-License-Identifier: Apache-2.0

"""Hosts without mix, whose writes are recorded."""

import fixtures
from nova import context
from nova.db.api import api as api_db
from nova.objects import fields
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import driver
from oslo_serialization import jsonutils
from oslo_utils import versionutils

from tests.functional import recorded_writes
from tests.fuzz import cloud as fuzz_cloud

_SETS = dict(cpus=24, cells=2, ratio=2.0,
             dedicated='0-7,12-19', shared='8-11,20-23')
#: The scheduler prefers the first host by its memory, the second one next.
HOSTS = {'one': dict(_SETS, memory_mb=32768), 'two': _SETS,
         'three': dict(cpus=8, memory_mb=8192)}
#: Name of a flavor -> its vCPUs and extra specs.
FLAVORS = {
    'plain': (1, {}),
    'plain-2': (2, {}),
    'pinned': (2, {'hw:cpu_policy': 'dedicated'}),
    'mixed': (2, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}),
    'numa': (2, {'hw:numa_nodes': '2'}),
    'device': (1, {'hw:cpu_policy': 'dedicated',
                   'pci_passthrough:alias': 'function:1'}),
    'wide': (8, {}),
    'large': (64, {}),
}
_FUNCTION = {'vendor_id': fakelibvirt.PCI_VEND_ID,
             'product_id': fakelibvirt.VF_PROD_ID, 'live_migratable': 'yes'}


class RecordedCloud(fuzz_cloud.FuzzCloud):
    """Three hosts without mix, with ``driver``, and a recorder of writes."""

    driver = None
    ADDITIONAL_FILTERS = ['PciPassthroughFilter']

    def setUp(self):
        self.flags(service_down_time=86400)
        self.flags(
            device_spec=[jsonutils.dumps(_FUNCTION)],
            alias=[jsonutils.dumps({
                **_FUNCTION, 'name': 'function',
                'device_type': fields.PciDeviceType.SRIOV_VF})], group='pci')
        # Without the hosts of the fuzz.
        super(fuzz_cloud.FuzzCloud, self).setUp()
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        self.flags(max_concurrent_live_migrations=1, shutdown_timeout=0)
        # Otherwise the record of each host has the memory of this machine in
        # it.
        self.useFixture(fixtures.MonkeyPatch(
            'nova.virt.libvirt.host.Host.get_memory_mb_used', lambda host: 0))
        engines = {'API': api_db.context_manager.writer.get_engine()}
        for name, cell in self.cell_mappings.items():
            with context.target_cell(
                    context.get_admin_context(), cell) as cctxt:
                engines[name] = cctxt.db_connection.writer.get_engine()
        self.recorder = self.useFixture(recorded_writes.Recorder(engines))
        for name, options in HOSTS.items():
            self.start_host(name, driver=self.driver, **options)
        self.image_id = self.image()
        for name, (vcpus, extra_specs) in FLAVORS.items():
            self._create_flavor(
                id=name, name=name, vcpu=vcpus, memory_mb=256, disk=1,
                ephemeral=0, extra_spec=extra_specs or None)

    def start_compute(self, hostname, *args, **kwargs):
        """Start a compute with virtual functions that may migrate live."""
        if len(args) == 1:
            # A restarted compute keeps its libvirt.
            kwargs.update(
                pci_info=fakelibvirt.HostPCIDevicesInfo(
                    num_pci=0, num_pfs=1, num_vfs=4),
                libvirt_version=versionutils.convert_version_to_int(
                    driver.MIN_VFIO_PCI_VARIANT_LIBVIRT_VERSION),
                qemu_version=versionutils.convert_version_to_int(
                    driver.MIN_VFIO_PCI_VARIANT_QEMU_VERSION))
        return super().start_compute(hostname, *args, **kwargs)
