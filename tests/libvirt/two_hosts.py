# SPDX-License-Identifier: Apache-2.0

"""Two real hosts in one stock Nova, for migrations between them."""

import os
import pathlib
import threading
from unittest import mock

import fixtures
from nova import context
from nova import objects
from nova.virt import hardware
from nova.virt import node

from nova_prio.objects import host_report
from nova_prio_scenario import host_options
from tests.libvirt import cloud
from tests.libvirt import daemon
from tests.libvirt import guests

#: Patterns for the address of a host, unique to this process. The number of
#: the host replaces %d.
#: Migrations to REACHABLE addresses work, migrations to UNREACHABLE ones fail.
REACHABLE = '127.%d.%d.%%d' % divmod(os.getpid() % 2 ** 16, 2 ** 8)
UNREACHABLE = '240.0.0.%d'

# Nova gives an instance the same paths on each host. Here the paths must
# differ, because Nova sees both hosts from one mount namespace. libvirt lets
# this script change the domain XML of an incoming migration.
HOOK = '''\
#!/bin/sh
[ "$2" != migrate ] || exec sed 's,/tmp/%(prefix)s[^/]*/,%(directory)s/,g'
'''

# A cold migration runs commands on the other host, and copies files to it.
# These scripts map addresses to the directories of the hosts.
SSH = '''\
#!/bin/sh
[ "$1 $2" = "-o BatchMode=yes" ] || exit 255
host=%(addresses)s/$3
shift 3
exec $(echo "$@" | sed "s,/tmp/%(prefix)s[^/]*/,$host/,")
'''
SCP = '''\
#!/bin/sh
for to; do [ "$to" = "${to#*:}" ] && from=$to; done
exec cp -r "$from" "$(
    echo "$to" | sed "s,:/tmp/%(prefix)s[^/]*/,/,; s,^,%(addresses)s/,")"
'''


class Host(daemon.Host):
    """A host that accepts migrations."""

    @property
    def instances_path(self):
        """The directory of Nova for the files of instances."""
        return self.directory / 'instances'

    def _write_files(self):
        super()._write_files()
        self.instances_path.mkdir()
        hook = self.directory / 'etc/hooks/qemu'
        hook.parent.mkdir()
        hook.write_text(HOOK % {
            'prefix': daemon.PREFIX, 'directory': self.directory})
        hook.chmod(0o755)


class TwoHosts(cloud.RealCloud):
    """A stock Nova and Placement with a nova-compute for each host.

    ``hosts`` and ``cpus_of`` are dict, name -> Host and HostCPUs. ``options``
    is dict, name -> the options of nova.conf that only this host has: a dict,
    (group or None, option) -> value.
    """

    def __init__(self, cpus_of):
        """Prepare the cloud.

        :param cpus_of: dict, Host -> ``cpu_capacity.HostCPUs``
        """
        super().__init__(*next(iter(cpus_of.items())))
        self.hosts = {host.name: host for host in cpus_of}
        self.cpus_of = {host.name: cpus for host, cpus in cpus_of.items()}
        self._migration_ended = threading.Event()

    def setUp(self):
        super().setUp()
        for name in set(self.hosts) - {self.host.name}:
            self._join_aggregate(name, {'priority_mix': 'true'})

    def _configure_compute(self):
        super()._configure_compute()
        # Nova also puts the migration address into the URI of libvirtd. Here
        # the address is the name of a directory.
        addresses = self.useFixture(fixtures.TempDir())
        self.flags(live_migration_uri='qemu+unix:///system?socket=' +
                   addresses.join('%s', 'run/libvirt/libvirt-sock'),
                   group='libvirt')
        programs = self.useFixture(fixtures.TempDir())
        for name, text in ('ssh', SSH), ('scp', SCP):
            file = pathlib.Path(programs.join(name))
            file.write_text(text % {
                'addresses': addresses.path, 'prefix': daemon.PREFIX})
            file.chmod(0o755)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', '%s:%s' % (programs.path, os.environ['PATH'])))
        # Otherwise a host would find the files of the other one.
        self.useFixture(fixtures.MonkeyPatch(
            'nova.virt.libvirt.driver.LibvirtDriver.'
            'check_instance_shared_storage_remote',
            lambda driver, context, data: False))
        self.options = {}
        for number, (name, host) in enumerate(self.hosts.items(), 1):
            self.options[name] = {
                (None, 'host'): name,
                (None, 'state_path'): str(host.directory),
                (None, 'instances_path'): str(host.instances_path),
                ('compute', 'cpu_dedicated_set'):
                    hardware.format_cpu_spec(self.cpus_of[name].dedicated),
                ('compute', 'cpu_shared_set'):
                    hardware.format_cpu_spec(self.cpus_of[name].shared),
                ('libvirt', 'connection_uri'): host.uri,
                ('libvirt', 'live_migration_inbound_addr'):
                    REACHABLE % number,
                ('libvirt', 'migration_inbound_addr'): REACHABLE % number}
            for address in REACHABLE, UNREACHABLE:
                os.symlink(host.directory, addresses.join(address % number))

    def start_compute(self):
        """Start nova-compute on each host."""
        options_fixture = self.useFixture(host_options.HostOptionsFixture())
        for name, options in self.options.items():
            # Nova caches one node identity per process.
            with (options_fixture.starting(options),
                  mock.patch.object(node, 'LOCAL_NODE_UUID', None)):
                self.computes[name] = self.start_service('compute', host=name)
            manager = self.computes[name].manager
            host_options.run_with(manager, options, {})
            manager._do_live_migration = self._set_event_after(
                manager._do_live_migration)

    def _set_event_after(self, migrate):
        """Return a function that migrates and then sets an event.

        The status of the migration is no sign of the end: Nova sets it before
        it cleans up.
        """
        def migrate_and_set(*args, **kwargs):
            try:
                migrate(*args, **kwargs)
            finally:
                self._migration_ended.set()

        return migrate_and_set

    def update_host(self):
        """Run the periodic resource update of each host."""
        for name, compute in self.computes.items():
            with host_options.use(self.options[name]):
                compute.manager.update_available_resource(
                    context.get_admin_context())

    def _destroy_guests(self):
        for host in self.hosts.values():
            for name in host.virsh('list', '--name').split():
                host.virsh('destroy', name)

    def boot_on(self, name, flavor, image):
        """Create a server on a host and return it once it is ACTIVE."""
        return self._create_server(flavor_id=flavor, image_uuid=image,
                                   networks='none', host=name)

    def host_of(self, server):
        """Return the name of the host of a server."""
        return self.api.get_server(server['id'])['OS-EXT-SRV-ATTR:host']

    def guest(self, server):
        """Return the ``guests.Guest`` of a server."""
        guest = super().guest(server)
        return guests.Guest(self.hosts[self.host_of(server)], guest.name)

    def migrate(self, server, name):
        """Ask for the live migration of a server to a host.

        :returns: function that waits until Nova has cleaned up, and returns
            the status of the migration
        """
        self._migration_ended.clear()
        self.api.post_server_action(server['id'], {'os-migrateLive': {
            'host': name, 'block_migration': 'auto'}})

        def wait():
            if not self._migration_ended.wait(daemon.TIMEOUT_SECONDS):
                raise RuntimeError('The migration does not end.')
            return self.api.api_get(
                '/os-migrations?limit=1&instance_uuid=%s' % server['id']
                ).body['migrations'][0]['status']

        return wait

    def allocations_of(self, consumer):
        """Return the allocations of a consumer in Placement.

        :returns: dict, host -> dict, resource class -> int
        """
        allocations = self.placement.get(
            '/allocations/%s' % consumer).body['allocations']
        return {name: allocations[provider]['resources']
                for name, provider in self._providers().items()
                if provider in allocations}

    def _providers(self):
        return {name: compute.manager.driver._host.get_node_uuid()
                for name, compute in self.computes.items()}

    def read_accounting(self):
        """Return the accounting of the hosts.

        :returns: dict, host -> (used Rows of the report, low vCPUs of each
            cell, usages in Placement)
        """
        found = {}
        for name, provider in self._providers().items():
            cell = self.host_mappings[name].cell_mapping
            with context.target_cell(
                    context.get_admin_context(), cell) as cctxt:
                stats = objects.ComputeNode.get_by_host_and_nodename(
                    cctxt, name, name).stats
            report = host_report.HostReport.from_stats(stats)
            found[name] = (
                report.used, report.low_by_cell, self.placement.get(
                    '/resource_providers/%s/usages' % provider
                    ).body['usages'])
        return found

    def recount(self):
        """Recount, assert that the accounting stays, and return it."""
        before = self.read_accounting()
        self.update_host()
        assert before == self.read_accounting()
        return before

    def migrate_and_return(self, server, check):
        """Migrate a server live to mix2 and back to mix1.

        :param check: function that checks the server; its argument is the
            name of the host
        """
        before = self.recount()
        for host in 'mix2', 'mix1':
            assert 'completed' == self.migrate(server, host)()
            check(host)
            after = self.recount()
        assert before == after
