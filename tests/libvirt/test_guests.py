# SPDX-License-Identifier: Apache-2.0

"""The CPUs and cgroups of guests of each priority, in the kernel."""

import pytest

from tests.libvirt import guests


@pytest.fixture(scope='module', autouse=True)
def high(start):
    return start('high', 'high')


@pytest.fixture(scope='module', autouse=True)
def low(start):
    return start('low', 'low', vcpus=2, iothreads=2)


@pytest.fixture(scope='module', autouse=True)
def ordinary(start, idle_image):
    return start('ordinary', vcpus=2, image=idle_image)


def allowed(threads):
    """Return dict, number of a Thread -> CPUs where it may run."""
    return {number: thread.allowed for number, thread in threads.items()}


def test_high_vcpus_run_on_their_own_cpu(high, cpus):
    vcpu = guests.wait_until_busy(high)[0]
    assert cpus.dedicated == vcpu.allowed == {vcpu.last}
    assert {0: cpus.dedicated} == high.affinity


def test_low_vcpus_run_on_both_sets(low, cpus):
    threads = guests.wait_until_busy(low)
    assert {0: cpus.floating, 1: cpus.floating} == allowed(threads)
    assert {0: cpus.floating, 1: cpus.floating} == low.affinity
    assert {thread.last for thread in threads.values()} <= cpus.floating


def test_ordinary_vcpus_run_on_the_shared_set(ordinary, cpus):
    assert {0: cpus.shared, 1: cpus.shared} == allowed(ordinary.vcpus)
    assert {0: cpus.shared, 1: cpus.shared} == ordinary.affinity


def test_emulator_and_io_threads_of_low_guest_run_on_shared_cpus(low, cpus):
    assert cpus.shared == low.emulator.allowed
    assert {'iothread1': cpus.shared,
            'iothread2': cpus.shared} == allowed(low.iothreads)


def test_each_priority_has_its_partition(high, low, ordinary):
    for guest, partition in ((high, '/high_prio_machine.partition/'),
                             (low, '/low_prio_machine.partition/'),
                             (ordinary, '/machine/')):
        cgroups = guest.cgroups
        for controller in 'cpu', 'cpuacct', 'cpuset':
            assert cgroups[controller].startswith(partition), cgroups


def test_guests_survive_restart_of_libvirtd(host, high, low, ordinary):
    def read_state():
        return [(guest.pid, guest.affinity, allowed(guest.vcpus),
                 guest.emulator.allowed, guest.cgroups,
                 host.virsh('domstate', guest.name))
                for guest in (high, low, ordinary)]

    before = read_state()
    host.restart_libvirtd()
    assert before == read_state()
    guests.wait_until_busy(high)
