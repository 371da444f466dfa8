# SPDX-License-Identifier: Apache-2.0

"""Stock Nova and Placement in this process, on real libvirt and QEMU.

Like ``nova_prio_scenario.cloud``, with a real host instead of Nova's fake
libvirt. Only the event handling of Nova's libvirt driver is replaced, because
a test could not end its threads.
"""

import contextlib
import functools
import sys
import threading
from unittest import mock

import fixtures
import libvirt
import nova.conf
from nova import context
from nova import objects
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional import integrated_helpers
from nova.virt import hardware
import os_vif

from nova_prio.objects import host_report
from nova_prio_scenario import cloud
from tests.libvirt import guests

CONF = nova.conf.CONF

#: Fixtures with which Nova keeps its tests away from the real host.
POISON = ('GenericPoisonFixture', 'ImportModulePoisonFixture',
          'SysFsPoisonFixture')
#: Methods of Nova that handle the events of libvirt.
EVENTS = ('_init_events', '_event_lifecycle_callback')


@functools.cache
def listen_to_libvirt():
    """Start a thread that detects when libvirtd ends.

    Without this thread, a call of libvirt would detect the end. The handler of
    Nova needs a lock that Nova holds during this call.
    """
    def listen():
        while True:
            libvirt.virEventRunDefaultImpl()

    libvirt.virEventRegisterDefaultImpl()
    module = threading
    if 'eventlet' in sys.modules:
        # Up to Nova 33, threads are green threads, and this one would block
        # all of them.
        module = sys.modules['eventlet'].patcher.original('threading')
    module.Thread(target=listen, daemon=True).start()


class RealCloud(cloud.Installed, integrated_helpers._IntegratedTestBase):
    """A stock Nova and Placement with one real host.

    ``self.api`` is the client of an administrator for Nova at the newest
    microversion, and ``self.placement`` the client for Placement.
    """

    ADMIN_API = True
    microversion = 'latest'

    def __init__(self, host, cpus):
        """Prepare the cloud.

        :param host: ``daemon.Host``
        :param cpus: ``cpu_capacity.HostCPUs`` of the host
        """
        super().__init__('_clear_attrs')
        self.host = host
        self.cpus = cpus

    @classmethod
    @contextlib.contextmanager
    def running(cls, *args):
        """Return a context with a running cloud."""
        running = cls(*args)
        try:
            running.setUp()
            yield running
        finally:
            running.doCleanups()

    def setUp(self):
        self._install()
        self._configure_compute()
        with contextlib.ExitStack() as stack:
            for name in POISON:
                stack.enter_context(mock.patch.object(
                    nova_fixtures, name,
                    lambda *args: fixtures.Fixture()))
            for name in EVENTS:
                self.useFixture(fixtures.MockPatch(
                    'nova.virt.libvirt.host.Host.' + name))
            super().setUp()
        self.useFixture(nova_fixtures.PrivsepFixture())
        listen_to_libvirt()
        self._keep_uploads()
        os_vif.initialize()
        self.addCleanup(self._destroy_guests)
        self.start_compute()
        self._join_aggregate(
            self.host.name, {'priority_mix': 'true'})
        self.update_host()

    def _configure_compute(self):
        """Set the options of nova.conf for the host."""
        directory = self.useFixture(fixtures.TempDir()).path
        self.flags(
            compute_driver=cloud.PRIORITY_DRIVER,
            instances_path=directory, state_path=directory,
            cpu_allocation_ratio=float(self.cpus.ratio),
            ram_allocation_ratio=1.0, reserved_host_memory_mb=0,
            cpu_priority_mix_enable=self.cpus.mix,
            allow_resize_to_same_host=True, shelved_offload_time=0,
            # These guests ignore a shutdown signal.
            shutdown_timeout=0)
        self.set_cpus(self.cpus.dedicated, self.cpus.shared)
        self.flags(connection_uri=self.host.uri, virt_type='qemu',
                   cpu_mode='none', images_type='qcow2', group='libvirt')
        self.flags(enabled=False, group='vnc')

    def set_cpus(self, dedicated, shared):
        """Configure the CPU sets for the next start of nova-compute."""
        self.flags(cpu_dedicated_set=hardware.format_cpu_spec(dedicated),
                   cpu_shared_set=hardware.format_cpu_spec(shared),
                   group='compute')

    def _keep_uploads(self):
        """Let Nova's fake of Glance keep the data of a snapshot."""
        update = self.glance.update

        def update_with_data(context, image_id, metadata, data=None,
                             **kwargs):
            if data:
                self.glance._imagedata[image_id] = data.read()
            return update(context, image_id, metadata, **kwargs)

        self.glance.update = update_with_data

    def _setup_compute_service(self):
        """Start no compute yet: the driver needs the fixtures of setUp."""

    def _wait_for_server_parameter(self, server, expected_params,
                                   max_retries=10, **kwargs):
        """Wait 60 seconds: Nova waits 5 seconds, but has no real guests."""
        return super()._wait_for_server_parameter(
            server, expected_params, 12 * max_retries, **kwargs)

    def _destroy_guests(self):
        for name in self.host.virsh('list', '--name').split():
            self.host.virsh('destroy', name)

    def start_compute(self):
        """Start nova-compute on the host."""
        self.computes[self.host.name] = self.start_service(
            'compute', host=self.host.name)

    def restart_compute(self):
        """Stop nova-compute and start it again."""
        self.computes.pop(self.host.name).stop()
        self.start_compute()
        self.update_host()

    def update_host(self):
        """Run the periodic resource update of the host."""
        self.computes[self.host.name].manager.update_available_resource(
            context.get_admin_context())

    @property
    def driver(self):
        """The driver of the running nova-compute."""
        return self.computes[self.host.name].driver

    def report(self):
        """Return the latest CapacityReport of nova-compute."""
        return host_report.HostReport.from_stats(
            objects.ComputeNode.get_by_host_and_nodename(
                context.get_admin_context(), self.host.name,
                self.host.name).stats)

    def image(self, path):
        """Create an image and return its id.

        :param path: ``pathlib.Path`` of a raw image
        """
        with open(path, 'rb') as data:
            return self.glance.create(None, {
                'name': path.name, 'container_format': 'bare',
                'disk_format': 'raw', 'min_disk': 0, 'min_ram': 0,
                'status': 'active', 'visibility': 'public',
                'size': path.stat().st_size, 'properties': {}}, data)['id']

    def flavor(self, vcpus=1, **extra_specs):
        """Create a flavor and return its id."""
        return self._create_flavor(vcpu=vcpus, memory_mb=32, disk=1,
                                   ephemeral=0, extra_spec=extra_specs or None)

    def boot(self, flavor, image):
        """Create a server, wait until it is ACTIVE and return it."""
        return self._create_server(
            flavor_id=flavor, image_uuid=image, networks='none')

    def guest(self, server):
        """Return the ``guests.Guest`` of a server."""
        return guests.Guest(
            self.host, self.api.get_server(server['id'])[
                'OS-EXT-SRV-ATTR:instance_name'])
