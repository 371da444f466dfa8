# SPDX-License-Identifier: Apache-2.0


"""The invariants report each violation in a live cloud in one sentence."""

import contextlib
import uuid

import pytest
import tenacity

from tests.live import catalog
from tests.live import client
from tests.live import look
from tests.live import watch

FOREIGN = '''\
<domain type='qemu'>
  <name>foreign</name>
  <memory unit='MiB'>16</memory>
  <vcpu cpuset='8-11'>1</vcpu>
  <os><type>hvm</type></os>
</domain>
'''


@pytest.fixture(scope='module', autouse=True)
def watched():
    """Do not watch: the tests violate the invariants on purpose."""


@pytest.fixture(scope='module')
def connection(layout):
    """The administrator's."""
    return catalog.connect(layout)


@pytest.fixture(scope='module')
def host(hosts):
    """The name of the host that takes part."""
    return hosts[0]


@pytest.fixture(scope='module')
def servers(openstack, connection, flavors, host):
    """A high and a low one: dict, name -> server of the SDK."""
    compute = connection.compute
    image = connection.image.find_image('guest')
    found = {name: compute.create_server(
        name=name, flavor_id=compute.find_flavor(name).id,
        image_id=image.id, host=host, networks='none')
        for name in ('high', 'low')}
    yield {name: compute.wait_for_server(server, wait=300)
           for name, server in found.items()}
    for server in found.values():
        compute.delete_server(server)
    for server in found.values():
        compute.wait_for_delete(server, wait=300)


@pytest.fixture
def found(layout, servers):
    """Function that returns the present violations."""
    assert [] == watch.settle(layout).violations
    yield lambda: watch.settle(layout, 0).violations
    assert [] == watch.settle(layout).violations


@pytest.fixture
def allocate(connection):
    """A function that writes what a consumer holds; it may be too late."""
    def put(consumer, **body):
        # What Nova wrote has a type that may not be written.
        return connection.placement.put('/allocations/' + consumer, json={
            'consumer_generation': None, **body,
            'consumer_type': 'INSTANCE'})
    return put


@pytest.fixture
def virsh(layout, host):
    """A function that runs virsh on the host."""
    return lambda *words: client.virsh(layout, host, *map(str, words))


def domain(layout, host, server):
    """Return the state.Domain of a server."""
    of_host, = look.at_active_guests(layout, host).hosts
    return next(domain for domain in of_host.domains
                if domain.uuid == server.id)


def sentence(text, server):
    """Fill in the title of a server."""
    return text % 'server %s (%s)' % (server.name, server.id)


def test_allocation_of_nobody(found, connection, allocate, servers, host):
    nobody = str(uuid.uuid4())
    provider = connection.placement.find_resource_provider(host)
    allocate(nobody, project_id=nobody, user_id=nobody, allocations={
        provider.id: {'resources': {'VCPU': 3}}}).raise_for_status()
    violations = found()
    connection.placement.delete('/allocations/' + nobody).raise_for_status()
    assert ['On %s, consumer %s holds VCPU 3 and needs nothing.' % (
        host, nobody)] == violations


def test_missing_allocation(found, connection, allocate, servers, host):
    url = '/allocations/' + servers['high'].id
    body = connection.placement.get(url).json()
    connection.placement.delete(url).raise_for_status()
    violations = found()
    # A nova-compute that was faster has put it right itself.
    allocate(servers['high'].id, **{**body, 'consumer_generation': None})
    assert [sentence(
        'On ' + host + ', %s holds nothing and needs '
        'DISK_GB 1, MEMORY_MB 64, PCPU 4.', servers['high'])] == violations


def test_allocation_of_another_size(
        found, connection, allocate, servers, host):
    def resize(units):
        body = connection.placement.get(
            '/allocations/' + servers['low'].id).json()
        of_host, = body['allocations'].values()
        of_host['resources']['VCPU'] = units
        return allocate(servers['low'].id, **body)

    resize(1).raise_for_status()
    violations = found()
    resize(4)
    assert [sentence(
        'On ' + host + ', %s holds DISK_GB 1, MEMORY_MB 64, VCPU 1 and needs '
        'DISK_GB 1, MEMORY_MB 64, VCPU 4.', servers['low'])] == violations


@contextlib.contextmanager
def pinned_twice(layout, host, server, virsh):
    """Pin two vCPUs of a server onto one CPU; gives what that breaks."""
    guest = domain(layout, host, server)
    (first,), (second,), *others = guest.vcpus

    def pin(cpu):
        threads = ','.join(map(str, (
            cpu, second, *frozenset().union(*others))))
        virsh('; '.join((
            'vcpupin %s 0 %d --live' % (guest.name, cpu),
            'emulatorpin %s %s --live' % (guest.name, threads),
            'iothreadpin %s 1 %s --live' % (guest.name, threads))))

    pin(second)
    yield 'CPU %d of %s is pinned 2 times, by %s and %s.' % (
        second, host, guest.name, guest.name)
    pin(first)


def test_cpu_pinned_twice(found, layout, host, servers, virsh):
    with pinned_twice(layout, host, servers['high'], virsh) as wanted:
        violations = found()
    assert [wanted] == violations


def test_the_watcher_raises(found, layout, host, servers, virsh):
    with pytest.raises(AssertionError, match='is pinned 2 times'):
        with watch.watch(layout) as seen:
            with pinned_twice(layout, host, servers['high'], virsh) as wanted:
                for attempt in tenacity.Retrying(
                        stop=tenacity.stop_after_delay(30),
                        wait=tenacity.wait_fixed(0.2)):
                    with attempt:
                        assert wanted in seen


def test_low_guest_on_some_of_its_cpus(found, layout, host, servers, virsh):
    guest = domain(layout, host, servers['low'])
    virsh('vcpupin', guest.name, 1, '8', '--live')
    violations = found()
    virsh('vcpupin', guest.name, 1, '0-11', '--live')
    assert ['vCPU 1 of %s on %s runs on CPUs 8, not on CPUs 0-11.' % (
        guest.name, host)] == violations


def test_emulator_of_low_guest_on_dedicated_cpus(
        found, layout, host, servers, virsh):
    guest = domain(layout, host, servers['low'])
    virsh('emulatorpin', guest.name, '0-11', '--live')
    violations = found()
    virsh('emulatorpin', guest.name, '8-11', '--live')
    assert ['Emulator threads of %s on %s run on CPUs 0-11, not within '
            'CPUs 8-11.' % (guest.name, host)] == violations


def test_guest_that_ended(found, layout, host, servers, virsh):
    guest = domain(layout, host, servers['high'])
    virsh('destroy', guest.name)
    violations = found()
    # Nova waits before it takes the server for stopped.
    virsh('start', guest.name)
    assert [sentence('%s is ACTIVE on ' + host + ', but has active guests on '
                     'no host.', servers['high'])] == violations


def test_guest_of_nobody(found, virsh, host, tmp_path):
    file = tmp_path / 'foreign.xml'
    file.write_text(FOREIGN)
    virsh('create', file)
    number = virsh('domuuid', 'foreign').strip()
    violations = found()
    virsh('destroy', 'foreign')
    assert ['The guest foreign (%s) on %s is of no server there.' % (
        number, host)] == violations


def test_inventory_of_another_size(found, connection, host):
    placement = connection.placement
    provider = placement.find_resource_provider(host)
    url = '/resource_providers/%s/inventories/VCPU' % provider.id

    def reserve(units):
        found = placement.get(url).json()
        return placement.put(url, json={**found, 'reserved': units})

    reserve(0).raise_for_status()
    violations = found()
    reserve(4)
    assert ["%s offers {'VCPU': (12, 0, 2.0), 'PCPU': (8, 0, 1.0)}, it may "
            "sell {'VCPU': (12, 4, 2.0), 'PCPU': (8, 0, 1)}." % host
            ] == violations


def test_server_without_aggregate(found, connection, servers, host):
    compute = connection.compute
    aggregate = compute.find_aggregate('priority')
    compute.set_aggregate_metadata(aggregate, priority_mix=None)
    violations = found()
    compute.set_aggregate_metadata(aggregate, priority_mix='true')
    assert {sentence('%s has ' + name + ' priority and is on ' + host +
                     ', which is not for it.', server)
            for name, server in servers.items()} == set(violations)
