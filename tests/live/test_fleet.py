# SPDX-License-Identifier: Apache-2.0

"""Maintenance and planning of three real hosts, with faults in the middle.

Each host has 12 CPUs, of which README.rst dedicates 8: its high row has 8
vCPUs. Each server in ``load.FLAVORS`` needs at most 2 of them.
"""

import contextlib
import functools
import json
import re
import signal

import pytest

from tests.live import catalog
from tests.live import client
from tests.live import cloud
from tests.live import load as loads
from tests.live import operations
from tests.live import waiting
from tests.live import watch

#: A line on standard error about a change.
CHANGE = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*')
#: How often an operator repeats a drain while users change the servers.
REPEATS = 8
FOUND = 3


@pytest.fixture(scope='module', autouse=True)
def three_hosts(layout):
    """The tests need another host for each server, even without one host."""
    assert 3 == len(layout.hosts)


@pytest.fixture
def fleet(layout, openstack, admin, load, hosts):
    """Functions for the servers and hosts of a test."""
    found = Fleet(layout, openstack, admin, hosts)
    yield found
    found.clean()


class Fleet:
    """The servers and hosts of a test."""

    def __init__(self, layout, openstack, admin, hosts):
        self.layout = layout
        self.openstack = openstack
        self.compute = admin.compute
        self.image = admin.image.find_image('guest').id
        self.hosts = hosts
        #: Name -> UUID.
        self.servers = {}
        self.flavors = []

    def boot(self, flavor, host=None):
        """Create a server; return it when it is ACTIVE or in ERROR."""
        name = '%s-%d' % (flavor, len(self.servers))
        created = self.compute.create_server(
            name=name, flavor_id=self.compute.find_flavor(flavor).id,
            image_id=self.image, networks='none',
            **({'host': host} if host else {}))
        self.servers[name] = created.id
        return waiting.soon(self._get_built, created.id, every=1,
                            within=client.SECONDS)

    def _get_built(self, uuid):
        server = self.compute.get_server(uuid)
        return server if server.status in ('ACTIVE', 'ERROR') else None

    def boot_all(self, host):
        """Create a server of each flavor in ``load.FLAVORS`` on a host."""
        for flavor in loads.FLAVORS:
            assert 'ACTIVE' == self.boot(flavor, host).status

    def places(self):
        """Return dict, name of a server -> (status, host)."""
        found = {name: self.compute.get_server(uuid)
                 for name, uuid in self.servers.items()}
        return {name: (server.status, server.compute_host)
                for name, server in found.items()}

    def on(self, host):
        """Return the names of the servers of this test on a host."""
        return [name for name, (_, place) in self.places().items()
                if place == host]

    def service(self, host):
        """Return the nova-compute service of a host."""
        service, = self.compute.services(binary='nova-compute', host=host)
        return service

    def make_flavor(self, vcpus, **extra_specs):
        """Create a flavor with high priority; return its name."""
        created = self.compute.create_flavor(
            name='high-%d' % vcpus, vcpus=vcpus, ram=loads.MEMORY_MB,
            disk=loads.DISK_GB)
        self.flavors.append(created)
        self.compute.create_flavor_extra_specs(
            created, {'hw:cpu_priority': 'high', **extra_specs})
        return created.name

    def clean(self):
        """Delete the servers and flavors, and enable the hosts."""
        for uuid in self.servers.values():
            self.compute.delete_server(uuid, ignore_missing=True)
        for uuid in self.servers.values():
            waiting.soon(
                lambda: not self.compute.find_server(uuid), every=1,
                within=client.SECONDS)
        for flavor in self.flavors:
            self.compute.delete_flavor(flavor)
        for name in self.hosts:
            service = self.service(name)
            if service.status == 'disabled':
                self.compute.enable_service(service)


@contextlib.contextmanager
def draining(fleet, *words):
    """Drain a host; the context begins with the first move.

    :returns: subprocess.Popen; at the end, ``returncode`` is set and
        ``said`` has standard error
    """
    with fleet.openstack.start_nova_prio(
            'host', 'drain', *words, '--yes') as command:
        said = []
        for line in command.stderr:
            said.append(line)
            if CHANGE.match(line) and 'Instance' in line:
                break
        yield command
        _, rest = command.communicate(timeout=client.COMMAND_SECONDS)
        command.said = ''.join(said) + rest
        print(command.said)


def drain_until_empty(fleet, host):
    """Repeat a drain until the host is empty, as an operator does."""
    for _ in range(REPEATS):
        with fleet.openstack.start_nova_prio(
                'host', 'drain', host, '--yes') as command:
            out, err = command.communicate(timeout=client.COMMAND_SECONDS)
        print(out, err)
        if command.returncode == 0:
            return
        assert FOUND == command.returncode
    raise AssertionError('%s is not empty.' % host)


def reboot(fleet, name):
    """Reboot a host, and wait until nova-compute reports again."""
    found = cloud.Cloud(fleet.layout)
    stop_host(fleet, name)
    found.start_host(name)
    found.start_compute(name)
    return_soon(fleet, name)


def stop_host(fleet, name, number=signal.SIGTERM):
    """Stop nova-compute by a signal, then all other processes of a host."""
    processes = cloud.Cloud(fleet.layout).processes
    processes.stop('nova-compute-' + name, number)
    processes.stop('host-' + name)


def return_soon(fleet, name):
    """Return a host as soon as nova-compute is up and has no problem."""
    def is_returned():
        with contextlib.suppress(RuntimeError):
            return fleet.openstack.nova_prio('host', 'return', name, '--yes')

    waiting.soon(is_returned, every=5, within=watch.SETTLE_SECONDS)
    assert 'enabled' == fleet.service(name).status


@pytest.fixture
def users(layout, load):
    """Users, whose servers are deleted at the end."""
    found = operations.Users(layout, 'fleet', number=2)
    yield found
    found.delete_all()


def test_drain_under_load_survives_restart_of_nova_api(
        fleet, users, layout, hosts):
    host = hosts[0]
    fleet.boot_all(host)
    with users:
        users.wait_for_steps(3)
        with draining(fleet, host) as command:
            cloud.Cloud(layout).restart('compute')
        assert command.returncode in (0, FOUND)
        drain_until_empty(fleet, host)
    users.confirm()
    drain_until_empty(fleet, host)
    assert {'ACTIVE'} == {status for status, _ in fleet.places().values()}
    assert [] == fleet.on(host)
    assert [] == client.guests(layout, host)
    assert ('disabled', 'nova-prio host drain') == (
        fleet.service(host).status, fleet.service(host).disabled_reason)
    return_soon(fleet, host)


def test_full_destination_is_replaced(fleet, hosts):
    """Another server takes the last planned place in the middle of a drain."""
    host = hosts[0]
    servers = [fleet.boot('load-high', host) for _ in range(3)]
    plan = json.loads(fleet.openstack.nova_prio(
        'host', 'drain', host, '--dry-run', '-f', 'json'))
    first, *_, last = [row['Destination'] for row in plan]
    # Leave one dedicated CPU. The first move has its CPUs already.
    flavor = fleet.make_flavor(5 if first == last else 7)
    with draining(fleet, host) as command:
        assert 'ACTIVE' == fleet.boot(flavor, last).status
    assert 0 == command.returncode
    assert {'ACTIVE'} == {status for status, _ in fleet.places().values()}
    assert host not in {fleet.compute.get_server(each).compute_host
                        for each in servers}
    return_soon(fleet, host)


def test_only_some_hosts_have_a_required_trait(fleet, layout, hosts):
    host, without, fast = hosts
    placement = catalog.connect(layout).placement
    for name in host, fast:
        add_trait(placement, name, 'CUSTOM_NIC_FAST')
    # Nova would prefer the host without the trait.
    fleet.boot('load-high', fast)
    flavor = fleet.make_flavor(2, **{'trait:CUSTOM_NIC_FAST': 'required'})
    for _ in range(2):
        assert 'ACTIVE' == fleet.boot(flavor, host).status
    with draining(fleet, host) as command:
        pass
    assert 0 == command.returncode
    assert 3 == len(fleet.on(fast))
    assert [] == fleet.on(without)
    return_soon(fleet, host)


def add_trait(placement, host, trait):
    """Add a trait to the resource provider of a host."""
    placement.put('/traits/' + trait)
    provider, = placement.resource_providers(name=host)
    url = '/resource_providers/%s/traits' % provider.id
    body = placement.get(url).json()
    placement.put(url, json={**body, 'traits': [*body['traits'], trait]})


def test_host_dies_while_it_is_drained(fleet, layout, openstack, hosts):
    host = hosts[0]
    fleet.boot_all(host)
    with draining(fleet, host, '--timeout', '180') as command:
        stop_host(fleet, host, signal.SIGKILL)
    assert FOUND == command.returncode
    # As the runbook says: evacuate the servers that are left.
    openstack.run('compute', 'service', 'set', '--down', host, 'nova-compute')
    left = fleet.on(host)
    assert left
    for name in left:
        server = fleet.servers[name]
        if fleet.compute.get_server(server).task_state:
            openstack.run('server', 'set', '--auto-approve',
                          '--state', 'active', server)
        openstack.run('server', 'evacuate', server)
    for name in left:
        server = fleet.servers[name]
        openstack.wait(server, 'SHUTOFF')
        openstack.run('server', 'start', server)
        openstack.wait(server, 'ACTIVE')
    found = cloud.Cloud(layout)
    found.start_host(host)
    found.start_compute(host)
    waiting.soon(functools.partial(_force_up, openstack, host), every=2,
                 within=client.SECONDS)
    watch.settle(layout, audit=found.audit)
    return_soon(fleet, host)
    assert [] == fleet.on(host)
    assert {'ACTIVE'} == {status for status, _ in fleet.places().values()}


def _force_up(openstack, host):
    """Return whether Nova accepts that a host is up again.

    nova-compute removes its evacuated guests first.
    """
    with contextlib.suppress(RuntimeError):
        openstack.run(
            'compute', 'service', 'set', '--up', host, 'nova-compute')
        return True


def test_aggregate_is_patched_host_by_host(fleet, hosts, tmp_path):
    # The servers need 8 dedicated CPUs: those of one host.
    fleet.boot_all(hosts[0])
    fleet.boot('load-high', hosts[1])
    done = tmp_path / 'done'
    words = ('host', 'drain', '--aggregate', 'priority', '--batch', '1',
             '--done', done, '--yes')
    for number in range(len(hosts)):
        fleet.openstack.nova_prio(*words)
        patched = done.read_text().split()
        assert number + 1 == len(patched)
        assert [] == fleet.on(patched[-1])
        reboot(fleet, patched[-1])
    fleet.openstack.nova_prio(*words)
    assert sorted(hosts) == sorted(patched)
    assert {'ACTIVE'} == {status for status, _ in fleet.places().values()}


def test_room_is_made_for_refused_server(fleet, hosts):
    """The server needs the whole high row of a host."""
    wide = fleet.make_flavor(8)
    for host in hosts:
        fleet.boot('load-high', host)
    assert 'ERROR' == fleet.boot(wide).status
    words = 'room', 'plan', '--flavor', wide, '--count', '1', '-f', 'json'
    before = fleet.places()
    assert 1 == len(json.loads(fleet.openstack.nova_prio(*words)))
    assert before == fleet.places()
    fleet.openstack.nova_prio(*words, '--apply', '--yes')
    assert 'ACTIVE' == fleet.boot(wide).status


def test_one_command_plans_and_verifies_all_hosts(fleet, hosts, tmp_path):
    plans = tmp_path / 'plans'
    fleet.openstack.nova_prio(
        'host', 'plan', '--all', '--dedicated', '0-7', '--shared', '8-11',
        '--ratio', '2', '--output-dir', plans)
    assert {host + '.json' for host in hosts} == {
        file.name for file in plans.iterdir()}
    fleet.openstack.nova_prio('host', 'verify', '--all', '--plan', plans)
