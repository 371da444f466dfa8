# SPDX-License-Identifier: Apache-2.0

"""Start and stop all services of a live cloud."""

import concurrent.futures
import functools
import os
import socket
import subprocess
import sys
import time

from tests.live import apis
from tests.live import backends
from tests.live import catalog
from tests.live import clock
from tests.live import configuration
from tests.live import host
from tests.live import layout as layouts
from tests.live import processes as running


class Cloud:
    """The services of a layout."""

    def __init__(self, layout, say=functools.partial(print, flush=True),
                 nova=layouts.PROGRAMS.parent):
        """Start nothing yet.

        :param say: function that prints a line for each step
        :param nova: pathlib.Path of the virtual environment of Nova and of
            this package; the other services always run in that of this Python
        """
        self.layout = layout
        self.processes = running.Processes(layout)
        self._say = say
        self.nova = nova

    def up(self):
        """Start all services that do not run, in order of their dependencies.

        :raises ValueError: if a port is in use by other software
        """
        started = time.monotonic()
        if not any(self.status().values()):
            for listener in layouts.LISTENERS:
                self._check_port(self.layout.port(listener))
        self.layout.save()
        configuration.write(self.layout)
        catalog.write(self.layout)
        for step in (self._start_backends, self._start_identity,
                     self._make_databases, self._start_apis,
                     self._start_control, self.start_hosts,
                     self.start_computes):
            step()
            self._say('%5.1f s %s' % (
                time.monotonic() - started,
                step.__doc__.splitlines()[0].rstrip('.')))

    @staticmethod
    def _check_port(port):
        with socket.socket() as found:
            # Ports of connections that have just ended are free.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind((layouts.ADDRESS, port))
            except OSError as error:
                raise ValueError(
                    'Port %d is in use: choose another --first-port.' % port
                ) from error

    def down(self):
        """Stop all services in the reverse order of their start."""
        for name in self.processes.names():
            self._say('Stopping ' + name)
            self.processes.stop(name)

    def configure(self, is_plain, more=()):
        """Restart Nova with the options of README, or plain without them.

        In both cases, nova-compute keeps its CPU sets and ratio. The cloud
        must not have servers.

        :param more: as in ``configuration.write_priorities``
        """
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(self.processes.stop, (
                'compute', 'nova-scheduler',
                *map('nova-compute-'.__add__, self.layout.hosts))))
        for name in self.layout.hosts:
            catalog.delete_inventories(self.layout, name)
        configuration.write_priorities(self.layout, is_plain, more)
        self.start('compute')
        self.start('nova-scheduler')
        self.start_computes()

    def start(self, name):
        """Start a service that has a name as in ``status``."""
        host = name.removeprefix('nova-compute-')
        if name in apis.apis(self.layout):
            apis.start(self.layout, self.processes, name, self.nova)
        elif host in self.layout.hosts:
            self.start_compute(host)
        elif name == 'database':
            backends.start_database(self.layout, self.processes)
        elif name == 'messages':
            backends.start_broker(self.layout, self.processes)
        else:
            self.processes.start(
                name, self.nova / 'bin' / name,
                *self._files('common', 'nova', *(
                    ['readme-scheduler'] if name == 'nova-scheduler' else [])))

    def restart(self, name):
        """Stop a service and start it again."""
        self.processes.stop(name)
        self.start(name)

    def status(self):
        """Return dict, name of a started service -> PID, None if it ended."""
        return {name: self.processes.pid(name)
                for name in self.processes.names()}

    def _start_backends(self):
        """Database and message broker."""
        self.start('database')
        self.start('messages')

    def _start_identity(self):
        """Keystone and its catalog."""
        file = self._etc('keystone', 'keystone.conf')
        command = 'keystone', 'keystone-manage', '--config-file', file
        for name in 'fernet', 'credential':
            (self.layout.etc / name).mkdir(mode=0o700, exist_ok=True)
            self._run(*command, name + '_setup', '--keystone-user', 'root',
                      '--keystone-group', 'root')
        self._run(*command, 'db_sync')
        url = self.layout.url('identity')
        # Keystone's middleware in the other services needs an internal URL.
        self._run(*command, 'bootstrap', '--bootstrap-password',
                  layouts.PASSWORD, '--bootstrap-region-id', layouts.REGION,
                  '--bootstrap-public-url', url,
                  '--bootstrap-internal-url', url)
        self.start('identity')
        catalog.fill(self.layout)

    def _make_databases(self):
        """Tables of all services."""
        self._run('placement', 'placement-manage', '--config-file',
                  self._etc('placement', 'placement.conf'), 'db', 'sync')
        self._run('glance', 'glance-manage', '--config-file',
                  self._etc('glance', 'glance-api.conf'), 'db_sync')
        self._run('neutron', 'neutron-db-manage',
                  '--config-file', self._etc('neutron', 'neutron.conf'),
                  '--config-file', self._etc('neutron', 'ml2.ini'),
                  'upgrade', 'head')
        self._manage_nova('api_db', 'sync')
        self._manage_nova('cell_v2', 'map_cell0')
        if not (self.layout.run / 'cell').exists():
            self._manage_nova('cell_v2', 'create_cell', '--name', 'cell1')
            (self.layout.run / 'cell').touch()
        self._manage_nova('db', 'sync')

    def upgrade_databases(self):
        """Upgrade the tables of Nova to those of ``nova``."""
        self._manage_nova('api_db', 'sync')
        self._manage_nova('db', 'sync')

    def _start_apis(self):
        """Placement, Glance, Neutron and nova-api."""
        for listener in catalog.SERVICES:
            self.start(listener)
        connection = catalog.connect(self.layout)
        # The first request to Neutron is its slowest.
        list(connection.network.networks())

    def _start_control(self):
        """The nova-conductor and the nova-scheduler."""
        self.processes.wait_for_port('messages', 'messages')
        for name in 'nova-conductor', 'nova-scheduler':
            self.start(name)
        for name in 'nova-conductor', 'nova-scheduler':
            self.processes.wait(name, functools.partial(
                catalog.has_service, self.layout, name))

    def start_hosts(self):
        """Hosts with libvirtd."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(self.start_host, self.layout.hosts))

    def start_host(self, name):
        """Start the processes of a host except nova-compute."""
        self.processes.start(
            'host-' + name, sys.executable, '-m', 'tests.live.host',
            self.layout.directory, name, self.nova,
            environment={'PYTHONPATH': str(layouts.README.parent)})
        self.processes.wait('host-' + name, functools.partial(
            host.read_record, self.layout, name))

    def start_computes(self):
        """The nova-compute of each host."""
        for name in self.layout.hosts:
            self.start_compute(name)
        for name in self.layout.hosts:
            self.processes.wait('nova-compute-' + name, functools.partial(
                catalog.has_resources, self.layout, name))
        self._manage_nova('cell_v2', 'discover_hosts')

    def start_compute(self, name, clock_file=None):
        """Start nova-compute in the namespaces of a host.

        :param clock_file: file that sets the clock of nova-compute: see
            tests.live.clock
        """
        # The installed package must be imported, not that of the checkout.
        with_clock = [sys.executable, '-P', clock.__file__, clock_file] if (
            clock_file) else []
        record = host.read_record(self.layout, name)
        self.processes.start(
            'nova-compute-' + name, *record['enter'], *with_clock,
            self.nova / 'bin' / 'nova-compute',
            *self._files('common', name, 'readme-compute'),
            '--config-dir', self.layout.drop_ins(name),
            # nova-compute starts privsep-helper.
            environment={'PATH': '%s:%s' % (
                self.nova / 'bin', os.environ['PATH'])})

    def audit(self, *arguments):
        """Run ``nova-prio audit --fix`` and return its output."""
        return subprocess.run(
            [self.nova / 'bin' / 'nova-prio', 'audit', '--fix', '-f', 'json',
             *arguments, *self.layout.nova_options],
            capture_output=True, text=True).stdout

    def _manage_nova(self, *arguments):
        self.processes.run(
            'nova-manage', self.nova / 'bin' / 'nova-manage',
            *self._files('common', 'nova'), *arguments)

    def _run(self, name, program, *arguments):
        self.processes.run(name, layouts.PROGRAMS / program, *arguments)

    def _etc(self, *names):
        return self.layout.etc.joinpath(*names)

    def _files(self, *names):
        return [word for name in names for word in (
            '--config-file', self._etc('nova', name + '.conf'))]
