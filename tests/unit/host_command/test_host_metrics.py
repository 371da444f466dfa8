# SPDX-License-Identifier: Apache-2.0

"""``nova-prio-host metrics``, on a directory tree in place of a host."""

import errno
import pathlib
import subprocess
import sys
import time

from prometheus_client import parser
import pytest

from nova_prio_host import bundle
from nova_prio_host import command
from nova_prio_host import host_metrics

STAT = 'usage_usec %d\nuser_usec 1\nsystem_usec 2'
PRESSURE = ('some avg10=1.00 avg60=2.00 avg300=3.00 total=%d\n'
            'full avg10=0.00 avg60=0.00 avg300=0.00 total=7')
GUEST = {'directory': 'qemu-1-instance-00000001.libvirt-qemu',
         'slice': 'machine-qemu\\x2d1\\x2dinstance\\x2d00000001.scope'}
NAME = 'qemu-1-instance-00000001'


class Host:
    """The files of a host below a directory."""

    def __init__(self, root):
        self.root = root
        self.cgroups = root / 'sys/fs/cgroup'
        self.cgroups.mkdir(parents=True)

    def write(self, path, text):
        """Write a file, its path being relative to the root of the host."""
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('%s\n' % text)

    def write_cgroup(self, name, files):
        """Write the files of a cgroup, dict, name -> text."""
        for file, text in files.items():
            self.write('sys/fs/cgroup/%s/%s' % (name, file), text)

    def write_v2(self, low_files=(), suffix='partition'):
        """Write the root and the partitions of cgroup v2."""
        self.write_cgroup('', {'cgroup.controllers': 'cpu cpuset io memory',
                               'cgroup.subtree_control': ''})
        for priority, micros in ('high', 1500000), ('low', 250000):
            self.write_cgroup('%s_prio_machine.%s' % (priority, suffix), {
                'cgroup.controllers': '', 'cgroup.subtree_control': '',
                'cpu.stat': STAT % micros, 'cpu.idle': '0',
                'cpu.weight': '100', 'cpu.pressure': PRESSURE % micros})
        self.write_cgroup('low_prio_machine.' + suffix, dict(low_files))

    def write_guest(self, cgroup, threads, file='cgroup.threads'):
        """Write a guest whose vCPUs have the threads.

        :param threads: list with a dict for each vCPU, ID of a thread ->
            nanoseconds that it waited
        """
        for number, delays in enumerate(threads):
            self.write_cgroup('%s/libvirt/vcpu%d' % (cgroup, number),
                              {file: '\n'.join(map(str, delays))})
            for thread, delay in delays.items():
                self.write('proc/%d/schedstat' % thread, '5 %d 9' % delay)
        self.write_cgroup(cgroup + '/libvirt/emulator', {file: '99'})
        self.write('proc/99/schedstat', '5 1000000000000 9')

    def measure(self, *options):
        """Run the command; return dict, name -> labels -> value."""
        assert 0 == command.main(
            ['metrics', '--root', str(self.root),
             '--output', str(self.root / 'host.prom'), *options])
        return read((self.root / 'host.prom').read_text())


def read(text):
    """Return dict, name of a metric -> tuple of labels -> value.

    Each metric must have the type, the labels and the help of ``METRICS``.
    """
    found = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            metric = host_metrics.METRICS[sample.name]
            assert (metric.kind, metric.help) == (
                family.type, family.documentation)
            assert metric.labels == tuple(sample.labels)
            found.setdefault(sample.name, {})[
                tuple(sample.labels.values())] = sample.value
    return found


@pytest.fixture
def host(tmp_path):
    """Return a Host without cgroups."""
    return Host(tmp_path)


@pytest.mark.parametrize('kind, suffix', [
    ('directory', 'partition'), ('slice', 'slice')])
def test_v2_with_a_guest(host, kind, suffix):
    host.write_v2({'cpu.idle': '1', 'cpu.weight': '0'}, suffix)
    host.write_guest('low_prio_machine.%s/%s' % (suffix, GUEST[kind]), [
        {11: 2000000000}, {12: 500000000}])
    found = host.measure()
    assert {('high',): 1.5, ('low',): 0.25} == found[
        'nova_prio_partition_cpu_seconds_total']
    assert {('high',): 1.5, ('low',): 0.25} == found[
        'nova_prio_partition_cpu_waiting_seconds_total']
    assert {('high_prio_machine.' + suffix,): 100,
            ('low_prio_machine.' + suffix,): 0} == found[
        'nova_prio_partition_cpu_weight']
    assert {('high',): 0, ('low',): 1} == found['nova_prio_partition_guests']
    assert {('low', NAME): 2.5} == found['nova_prio_guest_delay_seconds_total']
    seconds = found['nova_prio_host_collection_timestamp_seconds'][()]
    assert 0 <= time.time() - seconds < 60


def test_directories_and_slices_are_added(host):
    for suffix in 'partition', 'slice':
        host.write_v2(suffix=suffix)
    found = host.measure()
    assert {('high',): 3, ('low',): 0.5} == found[
        'nova_prio_partition_cpu_seconds_total']
    assert 4 == len(found['nova_prio_partition_cpu_weight'])


@pytest.mark.parametrize('directories', [
    {'cpu': 'cpu,cpuacct', 'cpuacct': 'cpu,cpuacct'},
    {'cpu': 'cpu', 'cpuacct': 'cpuacct'}], ids=['together', 'apart'])
def test_v1_with_a_guest(host, directories):
    partition = '/low_prio_machine.partition'
    for directory in directories.values():
        host.write_cgroup(directory, {'cgroup.procs': ''})
    host.write_cgroup(directories['cpu'] + partition, {'cpu.shares': '2048'})
    host.write_cgroup(directories['cpuacct'] + partition,
                      {'cpuacct.usage': '3000000000'})
    host.write_guest('%s%s/%s' % (directories['cpu'], partition,
                                  GUEST['directory']), [{11: 7}], 'tasks')
    found = host.measure()
    assert {('low',): 3} == found['nova_prio_partition_cpu_seconds_total']
    assert {('low_prio_machine.partition',): 200} == found[
        'nova_prio_partition_cpu_weight']
    assert {('low', NAME): 7e-9} == found[
        'nova_prio_guest_delay_seconds_total']
    assert 'nova_prio_partition_cpu_waiting_seconds_total' not in found


def test_number_of_problems_is_that_of_check(host, capsys):
    host.write_v2()
    assert 1 == command.main(['check', '--root', str(host.root)])
    problems = capsys.readouterr().err.splitlines()
    assert {(): len(problems)} == host.measure()['nova_prio_cgroup_problems']


def test_host_without_cgroups_has_problems(host):
    found = host.measure()
    assert {(): 1} == found['nova_prio_cgroup_problems']
    assert 'nova_prio_partition_guests' not in found


@pytest.mark.parametrize('code', [errno.ENODEV, errno.EOPNOTSUPP])
def test_pressure_that_cannot_be_read_is_omitted(host, monkeypatch, code):
    """The kernel may run with psi=0, and a cgroup may be removed."""
    read_text = pathlib.Path.read_text

    def refuse(path):
        if path.name == 'cpu.pressure':
            raise OSError(code, 'no', str(path))
        return read_text(path)
    host.write_v2()
    monkeypatch.setattr(pathlib.Path, 'read_text', refuse)
    output = host.root / 'host.prom'
    assert 0 == command.main(['metrics', '--root', str(host.root),
                              '--output', str(output)])
    monkeypatch.undo()
    assert {'nova_prio_partition_cpu_waiting_seconds_total',
            'nova_prio_guest_delay_seconds_total'} == (
        host_metrics.METRICS.keys() - read(output.read_text()).keys())


def test_guest_with_a_thread_that_has_ended_is_omitted(host):
    host.write_v2()
    host.write_guest('low_prio_machine.partition/guest', [{11: 1, 12: 2}])
    host.write_guest('low_prio_machine.partition/other', [{13: 3}])
    (host.root / 'proc/11/schedstat').unlink()
    assert {('low', 'other'): 3e-9} == host.measure()[
        'nova_prio_guest_delay_seconds_total']


def test_names_of_guests_are_escaped(host):
    host.write_v2()
    host.write_guest('high_prio_machine.partition/a"b\\c', [{11: 1}])
    assert {('high', 'a"b\\c')} == host.measure()[
        'nova_prio_guest_delay_seconds_total'].keys()


def test_file_is_replaced_and_nothing_else_is_left(host):
    host.write_v2()
    host.write('host.prom', 'old')
    host.measure()
    assert ['host.prom', 'sys'] == sorted(
        path.name for path in host.root.iterdir())


def test_old_file_stays_if_the_new_one_cannot_be_written(
        host, monkeypatch, capsys):
    host.write('host.prom', 'old')

    def refuse(path, target):
        raise OSError(errno.ENOSPC, 'No space left on device', str(path))
    monkeypatch.setattr(pathlib.Path, 'replace', refuse)
    assert 1 == command.main(['metrics', '--root', str(host.root),
                              '--output', str(host.root / 'host.prom')])
    assert 'No space left on device.\n' in capsys.readouterr().err
    assert 'old\n' == (host.root / 'host.prom').read_text()
    assert ['host.prom', 'sys'] == sorted(
        path.name for path in host.root.iterdir())


def test_missing_directory_is_reported(host, capsys):
    assert 1 == command.main(['metrics', '--root', str(host.root),
                              '--output', str(host.root / 'none/host.prom')])
    assert 'No such file or directory.\n' in capsys.readouterr().err


def test_output_is_only_for_metrics(host, capsys):
    assert 2 == pytest.raises(SystemExit, command.main, [
        'check', '--output', 'f', '--root', str(host.root)]).value.code
    assert 'argument --output: allowed only with metrics' in (
        capsys.readouterr().err)


def test_output_is_refused_in_the_file_of_options(host, capsys):
    host.write('etc/nova-prio-host.conf', '--output=/tmp/f')
    assert 2 == pytest.raises(SystemExit, command.main, [
        'metrics', '--root', str(host.root)]).value.code
    assert "line 1: '--output=/tmp/f' is given" in capsys.readouterr().err


def test_bundle_prints_metrics_without_other_libraries(host):
    host.write_v2()
    path = host.root / 'nova-prio-host'
    bundle.write(path)
    done = subprocess.run(
        [sys.executable, '-I', '-S', path, 'metrics', '--root', host.root],
        capture_output=True, text=True, timeout=60)
    assert (0, '') == (done.returncode, done.stderr)
    assert {('high',): 1.5, ('low',): 0.25} == read(done.stdout)[
        'nova_prio_partition_cpu_seconds_total']
