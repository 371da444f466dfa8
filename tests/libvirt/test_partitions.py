# SPDX-License-Identifier: Apache-2.0

"""Guests in partitions that exist, and in partitions that are missing."""

import os
import pathlib
import sys

from prometheus_client import parser
import pytest

from tests.libvirt import daemon
from tests.libvirt import guests


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


def _measure(host):
    """Return the samples of ``nova-prio-host metrics``, a list."""
    text = host.run(sys.executable, '-m', 'nova_prio_host', 'metrics')
    return [sample for family in parser.text_string_to_metric_families(text)
            for sample in family.samples]


def _sum_low(samples, name):
    """Return the sum of a metric of the low-priority guests."""
    return sum(sample.value for sample in samples
               if (sample.name, sample.labels.get('priority')) == (
                   name, 'low'))


def test_metrics_show_the_wait_of_low_guests(host, start, cpus):
    """Each CPU has several busy vCPUs."""
    for name in 'measured', 'another':
        guests.wait_until_busy(start(
            name, 'low', vcpus=2 * len(cpus.floating)))
    before = _measure(host)
    # libvirt puts the driver and a number before the name.
    assert {'measured', 'another'} <= {
        sample.labels['guest'].rpartition('-')[2] for sample in before
        if 'guest' in sample.labels}

    def have_grown():
        after = _measure(host)
        return all(_sum_low(after, name) > _sum_low(before, name) + 1
                   for name in ('nova_prio_partition_cpu_seconds_total',
                                'nova_prio_guest_delay_seconds_total'))

    daemon.wait_for(have_grown, 'The metrics do not grow.')
