# SPDX-License-Identifier: Apache-2.0


"""The invariants of a live cloud, one by one."""

import dataclasses
import fractions
import inspect

import pytest

from tests.live import invariants
from tests.live import inventories
from tests.live import state

D, S = frozenset(range(8)), frozenset(range(8, 12))
A, B = 'aaaa', 'bbbb'


def cpus(*numbers):
    return frozenset(numbers)


def host(*domains, **changes):
    return dataclasses.replace(state.Host(
        'h1', D, S, fractions.Fraction(2), True, domains), **changes)


def high(uuid=A, pins=(0, 1), **changes):
    return dataclasses.replace(state.Domain(
        'high-' + uuid, uuid, True, '/high_prio_machine',
        tuple(map(cpus, pins)), frozenset(pins)), **changes)


def low(uuid=B, size=2, **changes):
    return dataclasses.replace(state.Domain(
        'low-' + uuid, uuid, True, '/low_prio_machine', (D | S,) * size, S),
        **changes)


def ordinary(uuid='cccc', size=2, **changes):
    return dataclasses.replace(state.Domain(
        'ordinary', uuid, True, '/machine', (S,) * size, S), **changes)


HIGH = {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}
LOW = {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}


def server(uuid=A, specs=None, **changes):
    return dataclasses.replace(state.Server(
        uuid, 'name', 'ACTIVE', None, 'h1', 2, 64, 1,
        HIGH if specs is None else specs, {}, {}, False, True), **changes)


def migration(**changes):
    return dataclasses.replace(
        state.Migration('mmmm', A, 'finished', 'h2', True), **changes)


def provider(name='h1', **allocations):
    inventory = {'reserved': 0, 'allocation_ratio': 1.0, 'max_unit': 12}
    return state.Provider(
        name, {
            'VCPU': {**inventory, 'total': 12, 'reserved': 4,
                     'allocation_ratio': 2.0},
            'PCPU': {**inventory, 'total': 8},
            'MEMORY_MB': {**inventory, 'total': 4096, 'reserved': 512},
            'DISK_GB': {**inventory, 'total': 100}},
        {}, frozenset({'CUSTOM_CPU_PRIORITY', 'CUSTOM_CPU_PRIORITY_MIX'}),
        allocations)


HELD = {'MEMORY_MB': 64, 'DISK_GB': 1}


@pytest.fixture
def good():
    """A snapshot without a violation."""
    return state.Snapshot(
        (host(high(), low(), ordinary()),),
        (server(), server(B, LOW), server('cccc', {})), (),
        (provider(**{A: {**HELD, 'PCPU': 2}, B: {**HELD, 'VCPU': 2},
                     'cccc': {**HELD, 'VCPU': 2}}),),
        (state.Hypervisor('h1', 6, 704, 3, True),), frozenset({'h1'}))


def found(rule, **parts):
    return list(rule(state.Snapshot(**parts)))


def test_good_snapshot_has_no_violation(good):
    assert [] == invariants.violations(good)
    assert [] == list(invariants.running_operations(good))


def test_each_invariant_is_listed():
    public = {function for module in (invariants, inventories)
              for name, function in vars(module).items()
              if inspect.isgeneratorfunction(function) and name[0] != '_'}
    assert public - {invariants.running_operations} == set(invariants.SETTLED)
    assert {invariants.cpus_pinned_twice, invariants.guests_on_wrong_cpus,
            invariants.classes_oversold_by_guests} == set(invariants.INSTANT)


def test_hypervisor_without_provider_is_skipped():
    assert [] == found(invariants.hypervisors, hypervisors=(
        state.Hypervisor('h1', 7, 7, 7, True),))


def test_all_invariants_are_checked(good):
    empty = dataclasses.replace(
        good, servers=(), hosts=(host(high(), high(B)),))
    assert {'CPU 0', 'The guest', 'On h1,'} < {
        ' '.join(sentence.split()[:2])
        for sentence in invariants.violations(empty)}


@pytest.mark.parametrize('ratio, mix, wanted', [
    # The worked example: (8 + 4) x 2 - 8.
    (2, True, {'high': 8, 'low': 16, 'ordinary': 8}),
    (2, False, {'high': 8, 'low': 8, 'ordinary': 8}),
    # 4 x 1.3 + 8 x 0.3 = 7.6, and 5.2.
    ('1.3', True, {'high': 8, 'low': 7, 'ordinary': 5}),
    # With a ratio below 1, dedicated CPUs add nothing to the low row.
    ('0.5', True, {'high': 8, 'low': 2, 'ordinary': 2})])
def test_sellable(ratio, mix, wanted):
    assert wanted == host(ratio=fractions.Fraction(ratio), mix=mix).sellable


@pytest.mark.parametrize('changes, specs, wanted', [
    ({}, {}, {'VCPU': 2}),
    ({}, HIGH, {'PCPU': 2}),
    ({}, LOW, {'VCPU': 2}),
    ({'image_properties': {'hw_cpu_policy': 'dedicated'}}, {}, {'PCPU': 2}),
    ({}, {**HIGH, 'hw:emulator_threads_policy': 'isolate'}, {'PCPU': 3}),
    ({}, {**HIGH, 'hw:emulator_threads_policy': 'share'}, {'PCPU': 2}),
    ({'vcpus': 4}, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '1-3'},
     {'VCPU': 1, 'PCPU': 3}),
    ({'vcpus': 4}, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^1-3'},
     {'VCPU': 3, 'PCPU': 1}),
    ({}, {'resources:PCPU': '2'}, {'PCPU': 2}),
    ({}, {'resources:VCPU': '2'}, {'VCPU': 2}),
    ({}, {'resources:DISK_GB': '0'}, {'VCPU': 2, 'DISK_GB': 0})])
def test_needs(changes, specs, wanted):
    wanted = {key: units for key, units in {**HELD, **wanted}.items()
              if units}
    assert wanted == server(A, specs, **changes).needs


@pytest.mark.parametrize('guest, pins, shared', [
    (high(), [0, 1], 0), (low(), [], 2), (ordinary(), [], 2),
    # A low-priority guest has no pinned CPU.
    (low(vcpus=(cpus(3), S)), [], 2),
    # Mixed, and with emulator threads on a CPU of their own.
    (high(vcpus=(cpus(3), S), threads=cpus(3) | S), [3], 1),
    (high(threads=cpus(5)), [0, 1, 5], 0),
    (high(threads=cpus(0)), [0, 1], 0),
    (high(threads=cpus(8)), [0, 1], 0),
    (ordinary(vcpus=(cpus(8), S)), [], 2),
    # A guest that floats on dedicated CPUs.
    (high(vcpus=(cpus(3, 4), cpus(0))), [0], 1)])
def test_pins_and_shared_vcpus_of_guests(guest, pins, shared):
    assert (pins, shared) == (host().pins(guest), host().shared_vcpus(guest))


@pytest.mark.parametrize('guests, wanted', [
    ((high(), high(B, (2, 1))),
     ['CPU 1 of h1 is pinned 2 times, by high-aaaa and high-bbbb.']),
    ((high(), high(B, (2, 3), threads=cpus(1))),
     ['CPU 1 of h1 is pinned 2 times, by high-aaaa and high-bbbb.']),
    # A stopped guest keeps its CPUs.
    ((high(), high(B, (0, 3), is_active=False)),
     ['CPU 0 of h1 is pinned 2 times, by high-aaaa and high-bbbb.']),
    ((high(pins=(2, 2)),),
     ['CPU 2 of h1 is pinned 2 times, by high-aaaa and high-aaaa.']),
    ((high(), high(B, (2, 3)), low()), [])])
def test_cpus_pinned_twice(guests, wanted):
    assert wanted == found(
        invariants.cpus_pinned_twice, hosts=(host(*guests),))


def test_same_cpu_number_on_two_hosts_is_no_violation():
    assert [] == found(invariants.cpus_pinned_twice, hosts=(
        host(high()), host(high(B), name='h2')))


def test_full_host_is_not_oversold():
    assert [] == found(invariants.classes_oversold_by_guests, hosts=(host(
        high(pins=range(8)), low(size=8), ordinary(size=8)),))


@pytest.mark.parametrize('guests, row, units, sellable', [
    ((high(pins=(*range(8), 0)),), 'high', 9, 8),
    ((low(size=17),), 'low', 17, 16),
    ((low(size=9), ordinary(size=8)), 'low', 17, 16),
    ((ordinary(size=9),), 'ordinary', 9, 8),
    # The shared vCPUs of a mixed guest are ordinary, whatever its priority.
    ((high(vcpus=(cpus(0), *[S] * 9)),), 'ordinary', 9, 8)])
def test_classes_oversold_by_guests(guests, row, units, sellable):
    assert ['Active guests of h1 have %d CPUs of the %s class, sellable are '
            '%d.' % (units, row, sellable)] == found(
                invariants.classes_oversold_by_guests, hosts=(host(*guests),))


def test_inactive_guests_are_not_counted():
    assert [] == found(invariants.classes_oversold_by_guests, hosts=(host(
        low(size=16), ordinary(is_active=False)),))


@pytest.mark.parametrize('guest, mix, wanted', [
    (low(vcpus=(S, D | S)), True,
     ['vCPU 0 of low-bbbb on h1 runs on CPUs 8-11, not on CPUs 0-11.']),
    (low(vcpus=(cpus(1),)), True,
     ['vCPU 0 of low-bbbb on h1 runs on CPUs 1, not on CPUs 0-11.']),
    (low(vcpus=(S, S)), False, []),
    (low(), False,
     ['vCPU 0 of low-bbbb on h1 runs on CPUs 0-11, not on CPUs 8-11.',
      'vCPU 1 of low-bbbb on h1 runs on CPUs 0-11, not on CPUs 8-11.']),
    (low(threads=D | S), True,
     ['Emulator threads of low-bbbb on h1 run on CPUs 0-11, not within '
      'CPUs 8-11.']),
    (ordinary(vcpus=(frozenset(), S)), True,
     ['vCPU 0 of ordinary on h1 runs on any CPU, not on CPUs 8-11 or one of '
      'CPUs 0-7.']),
    (ordinary(vcpus=(cpus(8), S)), True,
     ['vCPU 0 of ordinary on h1 runs on CPUs 8, not on CPUs 8-11 or one of '
      'CPUs 0-7.']),
    (ordinary(threads=frozenset()), True,
     ['Emulator threads of ordinary on h1 run on any CPU, not within '
      'CPUs 8-11.']),
    (high(threads=cpus(1, 2)), True,
     ['Emulator threads of high-aaaa on h1 run on CPUs 1-2, not within '
      'CPUs 0-1,8-11.']),
    (high(vcpus=(S, S), threads=S), True,
     ['high-aaaa on h1 is in /high_prio_machine and has no CPU of its own.']),
    (high(threads=cpus(0, 1) | S), True, []),
    (high(threads=cpus(4)), True, []),
    (high(partition='/machine'), True, [])])
def test_guests_astray(guest, mix, wanted):
    assert wanted == found(
        invariants.guests_on_wrong_cpus, hosts=(host(guest, mix=mix),))


@pytest.mark.parametrize('parts, wanted', [
    ({'servers': (server(task_state='spawning'),)},
     'server name (aaaa) is ACTIVE with task spawning.'),
    ({'servers': (server(status='BUILD'),)},
     'server name (aaaa) is BUILD with task None.'),
    ({'migrations': (migration(status='post-migrating'),)},
     'The migration mmmm of server aaaa is post-migrating.'),
    ({'hypervisors': (state.Hypervisor('h1', 0, 0, 0, False),)},
     'The nova-compute of h1 is down.')])
def test_in_motion(parts, wanted):
    assert [wanted] == found(invariants.running_operations, **parts)


@pytest.mark.parametrize('status', [
    'finished', 'confirmed', 'reverted', 'completed', 'done', 'cancelled',
    'error', 'failed'])
def test_migrations_at_rest(status):
    assert [] == found(invariants.running_operations,
                       migrations=(migration(status=status),))


@pytest.mark.parametrize('status, has_power, is_active, is_wrong', [
    ('ACTIVE', True, True, False), ('ACTIVE', True, False, True),
    # Nova has recorded that the guest has no power.
    ('ACTIVE', False, False, True),
    ('PAUSED', True, False, True), ('RESCUE', True, False, True),
    ('SHUTOFF', False, False, False), ('SHUTOFF', False, True, True),
    ('SUSPENDED', False, True, True), ('SHELVED', False, True, True),
    ('VERIFY_RESIZE', True, True, False),
    ('VERIFY_RESIZE', True, False, True),
    ('VERIFY_RESIZE', False, False, False),
    ('ERROR', True, False, False), ('ERROR', False, True, False)])
def test_guests_of_servers(status, has_power, is_active, is_wrong):
    assert is_wrong == bool(found(
        invariants.guests_of_servers,
        hosts=(host(high(is_active=is_active)),),
        servers=(server(status=status, has_power=has_power),)))


@pytest.mark.parametrize('status', ['ACTIVE', 'ERROR'])
@pytest.mark.parametrize('active', [('h2',), ('h1', 'h2')])
def test_guests_elsewhere(status, active):
    assert ['server name (aaaa) is %s on h1, but has active guests on %s.' % (
        status, ' and '.join(active))] == found(
            invariants.guests_of_servers,
            hosts=tuple(host(high(), name=name) for name in active),
            servers=(server(status=status),))


@pytest.mark.parametrize('servers, migrations, is_wrong', [
    ((server(),), (), False),
    ((server(status='SHUTOFF'),), (), False),
    ((), (), True),
    ((server(host='h2'),), (), True),
    ((server(status='SHELVED_OFFLOADED'),), (), True),
    # The resize is not confirmed and may be reverted.
    ((server(host='h2', status='VERIFY_RESIZE'),),
     (migration(source='h1'),), False),
    ((server(host='h2'),), (migration(source='h1'),), True),
    ((server(host='h2', status='VERIFY_RESIZE'),),
     (migration(source='h1', status='confirmed'),), True)])
def test_guests_without_server(servers, migrations, is_wrong):
    assert (['The guest high-aaaa (aaaa) on h1 has no server on this host.']
            if is_wrong else []) == found(
                invariants.guests_without_server, servers=servers,
                hosts=(host(high(is_active=False)),), migrations=migrations)


@pytest.mark.parametrize('guest, specs, is_wrong', [
    (high(), HIGH, False), (low(A), LOW, False), (ordinary(A), {}, False),
    (low(A), HIGH, True), (ordinary(A), LOW, True),
    (high(pins=(0,)), HIGH, True), (high(pins=(0, 1, 2)), HIGH, True),
    (high(threads=cpus(4)), HIGH, True), (low(A, vcpus=(S,)), LOW, True),
    (high(threads=cpus(4)),
     {**HIGH, 'hw:emulator_threads_policy': 'isolate'}, False),
    (high(is_active=False), LOW, False)])
def test_guests_unlike_their_servers(guest, specs, is_wrong):
    assert is_wrong == bool(found(
        invariants.guests_that_differ_from_servers, hosts=(host(guest),),
        servers=(server(A, specs),)))


@pytest.mark.parametrize('servers, row', [
    ((server(vcpus=9),), 'high'),
    ((server(vcpus=5), server(vcpus=4, status='SHUTOFF')), 'high'),
    ((server(vcpus=17, specs=LOW),), 'low'),
    ((server(vcpus=9, specs={}),), 'ordinary'),
    ((server(vcpus=8),), None),
    ((server(vcpus=9, host='h2'),), None),
    ((server(vcpus=9, status='SHELVED_OFFLOADED'),), None)])
def test_classes_oversold_by_servers(servers, row):
    assert ([row] if row else []) == [
        sentence.split()[-5] for sentence in found(
            invariants.classes_oversold_by_servers, hosts=(host(),),
            servers=servers)]


@pytest.mark.parametrize('changes, is_wrong', [
    ({}, True), ({'keeps_flavor': False}, False),
    ({'status': 'confirmed'}, False), ({'source': 'h2'}, False)])
def test_source_of_unconfirmed_resize_counts(changes, is_wrong):
    waits = server(host='h2', vcpus=2, status='VERIFY_RESIZE')
    assert is_wrong == bool(found(
        invariants.classes_oversold_by_servers, hosts=(host(),),
        servers=(waits, server('bbbb', vcpus=7)), migrations=(
            migration(**{'source': 'h1', 'status': 'finished', **changes}),)))


@pytest.mark.parametrize('status, has_fault, wanted', [
    ('ACTIVE', False, ['server name (aaaa) is ACTIVE and has no host.']),
    ('ERROR', False, ['server name (aaaa) is in ERROR without a fault.']),
    ('ERROR', True, []), ('SHELVED_OFFLOADED', False, [])])
def test_servers_without_host(status, has_fault, wanted):
    assert wanted == found(invariants.servers_without_host, servers=(
        server(host=None, status=status, has_fault=has_fault),))


ASKED_HIGH = {'hw:cpu_priority': 'high'}
ASKED_LOW = {'hw:cpu_priority': 'low'}
MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}


@pytest.mark.parametrize('offered, hints, specs, is_wrong', [
    (ASKED_HIGH, {}, HIGH, False), (ASKED_HIGH, {}, {}, True),
    (ASKED_HIGH, {}, {**HIGH, **MIXED}, True),
    ({**ASKED_HIGH, **MIXED}, {}, {**HIGH, **MIXED}, False),
    ({**ASKED_HIGH, **MIXED}, {}, HIGH, True),
    (ASKED_LOW, {}, LOW, False), (ASKED_LOW, {}, HIGH, True),
    (ASKED_LOW, {}, {**HIGH, **ASKED_LOW}, True),
    ({}, {}, {}, False), ({}, {}, HIGH, True),
    ({'hw:cpu_policy': 'dedicated'}, {}, {}, True),
    ({}, {'priority': 'high'}, HIGH, False),
    ({}, {'priority': 'high'}, ASKED_HIGH, True),
    ({}, {'priority': 'high'}, LOW, True),
    ({}, {'priority': 'low'}, LOW, False),
    ({}, {'priority': 'low'}, {}, True), ({}, {'group': 'low'}, {}, False),
    (None, {}, HIGH, False)])
def test_requests_not_in_force(offered, hints, specs, is_wrong):
    assert is_wrong == bool(found(
        invariants.servers_with_wrong_priority,
        servers=(server(A, specs, hints=hints, offered=offered),)))


@pytest.mark.parametrize('specs', [HIGH, {}])
@pytest.mark.parametrize('changes, may_end', [
    ({}, False), ({'keeps_flavor': False}, True),
    ({'keeps_flavor': False, 'status': 'reverted'}, False),
    ({'keeps_flavor': False, 'server': 'another'}, False)])
def test_resize_may_end_priority_of_hint(changes, may_end, specs):
    assert (specs != HIGH and not may_end) == bool(found(
        invariants.servers_with_wrong_priority,
        migrations=(migration(**changes),),
        servers=(server(
            A, specs, hints={'priority': 'high'}, offered={}),)))


@pytest.mark.parametrize('specs, changes, is_wrong', [
    (HIGH, {}, True), (LOW, {}, True), ({}, {}, False),
    (HIGH, {'host': 'h2'}, False),
    (HIGH, {'status': 'SHELVED_OFFLOADED'}, False)])
def test_priorities_off_their_hosts(specs, changes, is_wrong):
    assert is_wrong == bool(found(
        invariants.servers_on_ordinary_hosts, priority_hosts={'h2'},
        servers=(server(A, specs, **changes),)))


FULL = {**HELD, 'PCPU': 2}


@pytest.mark.parametrize('servers, migrations, h1, h2, wanted', [
    ((server(),), (), {A: FULL}, {}, []),
    ((server(),), (), {}, {},
     ['On h1, server name (aaaa) holds nothing and needs '
      'DISK_GB 1, MEMORY_MB 64, PCPU 2.']),
    ((server(),), (), {A: FULL}, {A: FULL},
     ['On h2, server name (aaaa) holds '
      'DISK_GB 1, MEMORY_MB 64, PCPU 2 and needs nothing.']),
    # A high-priority server must not have VCPU.
    ((server(),), (), {A: {**HELD, 'VCPU': 2}}, {},
     ['On h1, server name (aaaa) holds DISK_GB 1, MEMORY_MB 64, VCPU 2 and '
      'needs DISK_GB 1, MEMORY_MB 64, PCPU 2.']),
    ((), (), {A: {'VCPU': 1}}, {},
     ['On h1, consumer aaaa holds VCPU 1 and needs nothing.']),
    ((server(status='SHUTOFF'),), (), {A: FULL}, {}, []),
    ((server(status='SHELVED_OFFLOADED'),), (), {A: FULL}, {},
     ['On h1, server name (aaaa) holds DISK_GB 1, MEMORY_MB 64, PCPU 2 and '
      'needs nothing.']),
    ((server(host=None, status='ERROR'),), (), {}, {}, []),
    # The migration has the allocations at the source.
    ((server(status='VERIFY_RESIZE'),), (migration(),),
     {A: FULL}, {'mmmm': FULL}, []),
    ((server(status='VERIFY_RESIZE'),), (migration(),), {A: FULL}, {},
     ['On h2, the migration mmmm of server name (aaaa) holds nothing and '
      'needs DISK_GB 1, MEMORY_MB 64, PCPU 2.']),
    ((server(status='VERIFY_RESIZE'),), (migration(keeps_flavor=False),),
     {A: FULL}, {'mmmm': {'VCPU': 7}}, []),
    ((server(status='VERIFY_RESIZE'),), (migration(keeps_flavor=False),),
     {A: FULL}, {},
     ['On h2, the migration mmmm of server name (aaaa) holds nothing and '
      'needs something.']),
    ((server(),), (migration(status='confirmed'),),
     {A: FULL}, {'mmmm': FULL},
     ['On h2, consumer mmmm holds DISK_GB 1, MEMORY_MB 64, PCPU 2 and needs '
      'nothing.'])])
def test_allocations(servers, migrations, h1, h2, wanted):
    assert wanted == found(
        invariants.allocations, servers=servers, migrations=migrations,
        providers=(provider(**h1), provider('h2', **h2)))


def with_inventory(name, **changes):
    of_host = provider()
    return dataclasses.replace(of_host, inventories={
        **of_host.inventories,
        name: {**of_host.inventories[name], **changes}})


@pytest.mark.parametrize('of_host, wanted', [
    (provider('h2'), 'h1 is not in Placement.'),
    (with_inventory('VCPU', reserved=3),
     "h1 offers {'VCPU': (12, 3, 2.0), 'PCPU': (8, 0, 1.0)}, it may sell "
     "{'VCPU': (12, 4, 2.0), 'PCPU': (8, 0, 1)}."),
    (with_inventory('PCPU', total=9),
     "h1 offers {'VCPU': (12, 4, 2.0), 'PCPU': (9, 0, 1.0)}, it may sell "
     "{'VCPU': (12, 4, 2.0), 'PCPU': (8, 0, 1)}."),
    (with_inventory('VCPU', max_unit=4),
     'h1 refuses guests of 12 vCPUs, it has as many CPUs.'),
    (with_inventory('MEMORY_MB', allocation_ratio=1.5),
     'h1 sells memory that it does not have.'),
    (dataclasses.replace(provider(), traits=frozenset({
        'CUSTOM_CPU_PRIORITY', 'COMPUTE_NODE'})),
     "h1 has the traits ['CUSTOM_CPU_PRIORITY'], not "
     "['CUSTOM_CPU_PRIORITY', 'CUSTOM_CPU_PRIORITY_MIX'].")])
def test_inventories(of_host, wanted):
    assert [wanted] == found(
        inventories.wrong_inventories, hosts=(host(),), providers=(of_host,))


@pytest.mark.parametrize('ratio, mix, wanted', [
    (2, True, (12, 4, 2.0)), (2, False, (4, 0, 2.0)),
    # Low may have 7: (12 - 6) x 1.3 = 7.8, and (12 - 7) x 1.3 = 6.5.
    ('1.3', True, (12, 6, 1.3)), (1, True, (12, 8, 1.0))])
def test_offered(ratio, mix, wanted):
    total, reserved, of_provider = wanted
    of_host = with_inventory(
        'VCPU', total=total, reserved=reserved, allocation_ratio=of_provider)
    if not mix:
        of_host = dataclasses.replace(
            of_host, traits=frozenset({'CUSTOM_CPU_PRIORITY'}))
    assert [] == found(
        inventories.wrong_inventories, providers=(of_host,),
        hosts=(host(ratio=fractions.Fraction(ratio), mix=mix),))


@pytest.mark.parametrize('name, full', [
    ('VCPU', 16), ('PCPU', 8), ('MEMORY_MB', 3584)])
def test_providers_overfull(name, full):
    for units, wanted in (
            (full, []),
            (full + 1, ['%d %s of h1 are allocated, it has %d.' % (
                full + 1, name, full)])):
        assert wanted == found(inventories.overfull_providers, providers=(
            dataclasses.replace(provider(), usages={name: units}),))


@pytest.mark.parametrize('counted', [(3, 576, 1), (2, 575, 1), (2, 576, 0)])
def test_wrong_usage_of_hypervisor_is_reported(counted):
    assert ['The nova-compute of h1 counts %d vCPUs, %d MB and %d GB; its '
            'servers have 2, 576 and 1.' % counted] == found(
                invariants.hypervisors, servers=(server(),),
                hypervisors=(state.Hypervisor('h1', *counted, True),),
                providers=(provider(),))


@pytest.mark.parametrize('servers, migrations, counted', [
    ((), (), (0, 512, 0)),
    ((server(host='h2'),), (), (0, 512, 0)),
    ((server(status='SHELVED_OFFLOADED'),), (), (0, 512, 0)),
    ((server(status='SHUTOFF'), server(B, LOW)), (), (4, 640, 2)),
    ((server(host='h2', status='VERIFY_RESIZE'),),
     (migration(source='h1'),), (2, 576, 1)),
    ((server(host='h2', status='VERIFY_RESIZE'),),
     (migration(source='h1', keeps_flavor=False),), (7, 7, 7))])
def test_hypervisors(servers, migrations, counted):
    assert [] == found(
        invariants.hypervisors, servers=servers, migrations=migrations,
        hypervisors=(state.Hypervisor('h1', *counted, True),),
        providers=(provider(),))
