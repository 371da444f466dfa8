# SPDX-License-Identifier: Apache-2.0

"""Pairs of instances with one dedicated CPU in Nova's records."""

from nova import objects
from nova.objects import fields
from oslo_utils.fixture import uuidsentinel as uuids
import pytest

from nova_prio.admin.audit import pin_conflicts
from nova_prio.objects import migration_states

HOST, OTHER = 'host1', 'host2'
FIRST, SECOND, THIRD = sorted((uuids.a, uuids.b, uuids.c))
FINISHED = 'finished'
#: Id of the migration of an instance.
ID = 7

objects.register_all()


def topology(*cpus, reserved=()):
    """Return a NUMA topology that is pinned to these CPUs of a host."""
    vcpus = set(range(len(cpus)))
    return objects.InstanceNUMATopology(cells=[objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset=vcpus, memory=256,
        cpu_policy=fields.CPUAllocationPolicy.DEDICATED,
        cpu_pinning=dict(zip(vcpus, cpus)), cpuset_reserved=set(reserved))])


def instance(uuid, numa_topology, host=HOST, task_state=None, old=None,
             migration_id=ID):
    """Return an instance.

    :param old: NUMA topology on the source host of its resize, if there is one
    """
    context = None
    if old:
        context = objects.MigrationContext(
            instance_uuid=uuid, migration_id=migration_id,
            old_numa_topology=old, new_numa_topology=numa_topology)
    return objects.Instance(
        uuid=uuid, host=host, task_state=task_state,
        numa_topology=numa_topology, migration_context=context)


def migration(uuid, source, destination, status=FINISHED):
    """Return the migration of an instance."""
    return objects.Migration(
        id=ID, instance_uuid=uuid, source_compute=source,
        dest_compute=destination, status=status)


def find(instances, migrations=()):
    """Return the conflicts on the host, each a tuple."""
    return [tuple(conflict) for conflict in pin_conflicts.find_conflicts(
        HOST, instances, migrations)]


def test_each_pair_is_found_once():
    assert [(FIRST, SECOND, '2-3'), (SECOND, THIRD, '5')] == find([
        instance(SECOND, topology(2, 3, 5)),
        instance(FIRST, topology(1, 2, 3)),
        instance(THIRD, topology(5, 6))])


def test_cpu_of_emulator_threads_is_found():
    assert [(FIRST, SECOND, '4')] == find([
        instance(FIRST, topology(1, reserved=[4])),
        instance(SECOND, topology(4))])


def test_other_cpus_are_no_conflict():
    assert [] == find([
        instance(FIRST, topology(1)), instance(SECOND, topology(2)),
        instance(THIRD, None)])


def test_instance_with_a_task_is_left_out():
    assert [] == find([
        instance(FIRST, topology(1)),
        instance(SECOND, topology(1), task_state='resize_reverting')])


@pytest.mark.parametrize(
    'status', set(migration_states.OPEN_STATUSES) - {FINISHED})
def test_instance_with_unsettled_migration_is_left_out(status):
    assert [] == find(
        [instance(FIRST, topology(1)),
         instance(SECOND, topology(1), old=topology(1))],
        [migration(SECOND, OTHER, HOST, status)])


def test_source_of_unconfirmed_resize_keeps_old_cpus():
    resized = instance(SECOND, topology(1), host=OTHER, old=topology(3, 4))
    departure = [migration(SECOND, HOST, OTHER)]
    assert [(FIRST, SECOND, '4')] == find(
        [instance(FIRST, topology(4, 5)), resized], departure)
    # The new CPU has this number on the other host.
    assert [] == find([instance(FIRST, topology(1)), resized], departure)


def test_context_of_another_migration_does_not_count():
    resized = instance(SECOND, topology(1), host=OTHER, old=topology(3, 4),
                       migration_id=ID - 1)
    assert [] == find([instance(FIRST, topology(4)), resized],
                      [migration(SECOND, HOST, OTHER)])


def test_destination_of_unconfirmed_resize_has_new_cpus():
    resized = instance(SECOND, topology(1), old=topology(3, 4))
    arrival = [migration(SECOND, OTHER, HOST)]
    assert [(FIRST, SECOND, '1')] == find(
        [instance(FIRST, topology(1)), resized], arrival)
    # The old CPUs have these numbers on the other host.
    assert [] == find([instance(FIRST, topology(3)), resized], arrival)


def test_resize_on_same_host_keeps_old_and_new_cpus():
    resized = instance(SECOND, topology(1, 2), old=topology(2, 3))
    same_host = [migration(SECOND, HOST, HOST)]
    assert [] == find([resized], same_host)
    assert [(FIRST, SECOND, '1,3')] == find(
        [instance(FIRST, topology(1, 3)), resized], same_host)
