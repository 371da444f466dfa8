# SPDX-License-Identifier: Apache-2.0

"""The command nova-prio-host on virtual machines with other cgroups."""

import json
import pathlib
import re
import sys

import pytest

from tests.machines import machine

HERE = pathlib.Path('tests', 'machines')
HIGH, LOW = PARTITIONS = ('high_prio_machine', 'low_prio_machine')


@pytest.fixture(scope='module', params=[
    'v2-none', 'v2-systemd', 'v2-systemd-machined-packaged', 'v1-none',
    'v1-systemd-machined'])
def found(request, tmp_path_factory):
    """Tuple (name of the machine, dict with the results of inside.py)."""
    cgroups, *manager = request.param.split('-')
    text = machine.run(
        tmp_path_factory.mktemp('machine'), HERE / 'first.sh',
        'CGROUPS=%s' % cgroups, 'MANAGER=%s' % manager[0],
        'MACHINED=%s' % ('yes' if 'machined' in manager else 'no'),
        'PACKAGED=%s' % ('yes' if 'packaged' in manager else 'no'),
        # That of the environment is in the checkout, which may be in /tmp.
        'PYTHON=%s' % pathlib.Path(sys.executable).resolve(),
        'INSIDE=%s' % (machine.CHECKOUT / HERE / 'inside.py'))
    found = json.loads(text)
    assert 'failed' not in found, found['failed']
    return request.param, found


def test_second_prepare_changes_nothing(found):
    _name, found = found
    assert 1 == found['check before'][0]
    assert (0, []) == (found['prepare'][0], found['prepare'][2])
    assert found['prepare'][1]
    assert [0, ['[]'], []] == found['check']
    assert [0, [], []] == found['prepare again']


def test_guests_start_in_their_partitions(found):
    name, found = found
    for partition in PARTITIONS:
        assert 'cgroups' in found[partition], found[partition]['error']
        cgroup, = (
            path for _, controllers, path in (
                line.split(':', 2) for line in found[partition]['cgroups'])
            if 'cpu' in controllers.split(',') or
            ('v2' in name and not controllers))
        suffix = '.slice' if 'machined' in name else '.partition'
        assert cgroup.startswith('/%s%s/' % (partition, suffix))
    # The high guest is real-time. This kernel allows it in any cgroup.
    assert [1, 0] == [found[partition]['real-time threads']
                      for partition in PARTITIONS]
    # The guests did not change the partitions.
    assert [0, ['[]'], []] == found['check after guests']


def test_metrics_name_the_guest_of_a_partition(found):
    name, found = found
    for priority, partition in zip(('high', 'low'), PARTITIONS):
        status, lines, errors = found[partition]['metrics']
        assert (0, []) == (status, errors)
        assert 'nova_prio_partition_guests{priority="%s"} 1' % priority in (
            lines)
        delay, = (line for line in lines if line.startswith(
            'nova_prio_guest_delay_seconds_total{'))
        # libvirt removes the underscores of the name.
        assert re.search('{priority="%s",guest="qemu-[0-9]+-%s"} ' % (
            priority, partition.replace('_', '')), delay)
        for metric in 'cpu', 'cpu_waiting':
            assert ('nova_prio_partition_%s_seconds_total{priority="%s"}' % (
                metric, priority) in ' '.join(lines)) == (
                    metric == 'cpu' or 'v2' in name)


def test_weights_stay_after_guests_stop(found):
    name, found = found
    weights = found['weights after guests']
    suffixes = ['partition'] + ['slice'] * ('systemd' in name)
    top = 'cpu/' if 'v1' in name else ''
    for suffix in suffixes:
        high, low = ('%s%s.%s/' % (top, partition, suffix)
                     for partition in PARTITIONS)
        number = {'v1': 'cpu.shares', 'v2': 'cpu.weight'}[name[:2]]
        assert {'v1': '1024\n', 'v2': '100\n'}[name[:2]] == (
            weights[high + number])
        assert '0\n' == weights[high + 'cpu.idle']
        if suffix == 'slice' and 'v1' in name:
            # systemd cannot set idle on cgroup v1.
            assert '2\n' == weights[low + number]
        else:
            assert '1\n' == weights[low + 'cpu.idle']


def test_boot_prepares_host_before_libvirt_starts(found):
    name, found = found
    assert ('active' in found) == ('systemd' in name)
    if 'active' in found:
        assert [0, 4 * ['active'], []] == found['active']
        assert 0 < found['prepared'] <= found['libvirtd starts']


def test_slices_of_the_package_are_not_written_again(found):
    name, found = found
    written = [line for line in found['prepare'][1]
               if line.startswith('wrote ')]
    if 'systemd' in name and 'packaged' not in name:
        assert 2 == len(written)
    else:
        assert [] == written


def test_units_write_the_metrics(found):
    name, found = found
    assert ('metrics unit' in found) == ('systemd' in name)
    if 'metrics unit' in found:
        result = found['metrics unit']
        assert [0, [], []] == result['timer']
        assert [0, [], []] == result['service']
        timer, = result['next'][1]
        assert timer.endswith('nova-prio-host-metrics.service')
        assert 'nova_prio_cgroup_problems 0' in result['lines']
