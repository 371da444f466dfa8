# SPDX-License-Identifier: Apache-2.0

"""Guests in partitions that exist, and in partitions that are missing."""

import os
import pathlib

import pytest

from tests.libvirt import daemon


def _remove(directory):
    """Remove a cgroup and return whether it succeeded."""
    try:
        os.rmdir(directory)
    except OSError:
        return False
    return True


@pytest.mark.parametrize('priority', ['high', 'low'])
def test_guest_starts_only_if_its_partition_is_prepared(
        host, start, idle_image, priority):
    name = '%s_prio_machine.partition' % priority
    partitions = sorted(host.path('/sys/fs/cgroup').rglob(name))
    assert partitions
    # If one directory is missing, libvirt fails and removes the others. A
    # guest of an earlier test may still use it.
    daemon.wait_for(lambda: _remove(partitions[0]),
                    'A guest still uses the partition.')
    with pytest.raises(RuntimeError, match='error: Failed to create v. '):
        start(priority, priority, image=idle_image)
    assert not any(partition.exists() for partition in partitions)
    host.prepare()
    guest = start(priority, priority, image=idle_image)
    assert guest.cgroups['cpu'].startswith('/%s/' % name)


def test_partition_treats_real_time_guest_as_stock_libvirt_does(
        host, start, idle_image):
    """The kernel may forbid real-time in all cgroups except the root."""
    limit = pathlib.Path('/proc/sys/kernel/sched_rt_runtime_us').read_text()
    refused = host.path('/sys/fs/cgroup/cpu/high_prio_machine.partition/'
                        'cpu.rt_runtime_us').exists() and int(limit) >= 0
    for priority in None, 'high':
        name = 'real-time-%s' % priority
        if refused:
            with pytest.raises(RuntimeError, match='Cannot set scheduler '
                               '.* Operation not permitted'):
                start(name, priority, image=idle_image, real_time=True)
        else:
            guest = start(name, priority, image=idle_image, real_time=True)
            policy = host.run('chrt', '-p', str(guest.vcpus[0].tid))
            assert 'SCHED_FIFO' in policy
