# SPDX-License-Identifier: Apache-2.0


"""The invariants report each violation in a live cloud in one sentence."""

import contextlib
import uuid

import pytest
import tenacity

from tests.live import catalog
from tests.live import client
from tests.live import snapshots
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
    """The openstacksdk connection of the administrator."""
    return catalog.connect(layout)


@pytest.fixture(scope='module')
def host(hosts):
    """The name of the host of all servers."""
    return hosts[0]


@pytest.fixture(scope='module')
def servers(openstack, connection, flavors, host):
    """A high and a low server: dict, name -> server of the SDK."""
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
    """Function that writes the allocations of a consumer.

    The write fails if another one was faster.
    """
    def put(consumer, **body):
        # The consumer type that Placement returns may not be written.
        return connection.placement.put('/allocations/' + consumer, json={
            'consumer_generation': None, **body,
            'consumer_type': 'INSTANCE'})
    return put


@pytest.fixture
def virsh(layout, host):
    """Function that runs virsh on the host."""
    return lambda *words: client.virsh(layout, host, *map(str, words))


def domain(layout, host, server):
    """Return the state.Domain of a server."""
    of_host, = snapshots.read_active_guests(layout, host).hosts
    return next(domain for domain in of_host.domains
                if domain.uuid == server.id)


def sentence(text, server):
    """Return a text with the title of a server filled in."""
    return text % 'server %s (%s)' % (server.name, server.id)


def test_orphaned_allocation_is_reported(
        found, connection, allocate, servers, host):
    consumer = str(uuid.uuid4())
    provider = connection.placement.find_resource_provider(host)
    allocate(consumer, project_id=consumer, user_id=consumer, allocations={
        provider.id: {'resources': {'VCPU': 3}}}).raise_for_status()
    violations = found()
    connection.placement.delete('/allocations/' + consumer).raise_for_status()
    assert ['On %s, consumer %s holds VCPU 3 and needs nothing.' % (
        host, consumer)] == violations


def test_missing_allocation_is_reported(
        found, connection, allocate, servers, host):
    url = '/allocations/' + servers['high'].id
    body = connection.placement.get(url).json()
    connection.placement.delete(url).raise_for_status()
    violations = found()
    # If nova-compute has healed the allocation already, this write fails.
    allocate(servers['high'].id, **{**body, 'consumer_generation': None})
    assert [sentence(
        'On ' + host + ', %s holds nothing and needs '
        'DISK_GB 1, MEMORY_MB 64, PCPU 4.', servers['high'])] == violations


def test_wrong_amount_is_reported(
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
    """Pin two vCPUs of a server onto one CPU; yield the violation."""
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


def test_cpu_pinned_twice_is_reported(found, layout, host, servers, virsh):
    with pinned_twice(layout, host, servers['high'], virsh) as wanted:
        violations = found()
    assert [wanted] == violations


def test_watch_raises_after_violation(found, layout, host, servers, virsh):
    with pytest.raises(AssertionError, match='is pinned 2 times'):
        with watch.watch(layout) as seen:
            with pinned_twice(layout, host, servers['high'], virsh) as wanted:
                for attempt in tenacity.Retrying(
                        stop=tenacity.stop_after_delay(30),
                        wait=tenacity.wait_fixed(0.2)):
                    with attempt:
                        assert wanted in seen


def test_low_vcpu_with_too_few_cpus_is_reported(
        found, layout, host, servers, virsh):
    guest = domain(layout, host, servers['low'])
    virsh('vcpupin', guest.name, 1, '8', '--live')
    violations = found()
    virsh('vcpupin', guest.name, 1, '0-11', '--live')
    assert ['vCPU 1 of %s on %s runs on CPUs 8, not on CPUs 0-11.' % (
        guest.name, host)] == violations


def test_low_emulator_threads_on_dedicated_cpus_are_reported(
        found, layout, host, servers, virsh):
    guest = domain(layout, host, servers['low'])
    virsh('emulatorpin', guest.name, '0-11', '--live')
    violations = found()
    virsh('emulatorpin', guest.name, '8-11', '--live')
    assert ['Emulator threads of %s on %s run on CPUs 0-11, not within '
            'CPUs 8-11.' % (guest.name, host)] == violations


def test_stopped_guest_of_active_server_is_reported(
        found, layout, host, servers, virsh):
    guest = domain(layout, host, servers['high'])
    virsh('destroy', guest.name)
    violations = found()
    # Start the guest before Nova sets the server to SHUTOFF.
    virsh('start', guest.name)
    assert [sentence('%s is ACTIVE on ' + host + ', but has active guests on '
                     'no host.', servers['high'])] == violations


def test_orphan_guest_is_reported(found, virsh, host, tmp_path):
    file = tmp_path / 'foreign.xml'
    file.write_text(FOREIGN)
    virsh('create', file)
    number = virsh('domuuid', 'foreign').strip()
    violations = found()
    virsh('destroy', 'foreign')
    assert ['The guest foreign (%s) on %s has no server on this host.' % (
        number, host)] == violations


def test_wrong_inventory_is_reported(found, connection, host):
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


def test_priority_server_on_ordinary_host_is_reported(
        found, connection, servers, host):
    compute = connection.compute
    aggregate = compute.find_aggregate('priority')
    compute.set_aggregate_metadata(aggregate, priority_mix=None)
    violations = found()
    compute.set_aggregate_metadata(aggregate, priority_mix='true')
    assert {sentence('%s has ' + name + ' priority and is on ' + host +
                     ', no priority host.', server)
            for name, server in servers.items()} == set(violations)
