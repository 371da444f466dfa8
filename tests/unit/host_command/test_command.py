# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-host``, on a directory tree in place of a host.

The class Machine imitates the kernel. The tests of tests/libvirt use real
cgroups.
"""

import configparser
import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from nova_prio.virt.libvirt import guest_xml
from nova_prio_host import bundle
from nova_prio_host import command as host_command
from nova_prio_host import hierarchies
from nova_prio_host import host

UNITS = pathlib.Path(__file__).parents[3] / 'etc' / 'systemd'
V1 = ('blkio', 'cpu,cpuacct', 'cpuset', 'devices', 'freezer', 'memory',
      'net_cls,net_prio', 'perf_event')
#: Layout of the cgroups -> controllers of v1, directory of v2 or None.
LAYOUTS = {'v1': (V1, None), 'v2': ((), ''), 'hybrid': (V1, 'unified')}
#: Script in place of systemctl: applies the slice units like systemd 252.
SYSTEMCTL = """\
#!/bin/sh
echo "$@" >> %(log)s
cd %(cgroups)s
for unit in high_prio_machine low_prio_machine; do
    for top in . cpu,cpuacct; do
        test -e $top/cpu.stat || continue
        slice=$top/$unit.slice
        test "$1 $2" = "start $unit.slice" && cp -r ../new/$top $slice
        test -d $slice || continue
        file=$(ls ../../../etc/systemd/system/$unit.slice \\
            ../../../usr/lib/systemd/system/$unit.slice 2>&- | head -n 1)
        weight=$(sed -n 's/^CPUWeight=//p' $file | tail -n 1)
        low=$(sed -n 's/^MemoryLow=//p' $file)
        min=$(sed -n 's/^MemoryMin=//p' $file)
        case $top,$weight in
        .,idle) echo 1 > $slice/cpu.idle; echo 0 > $slice/cpu.weight;;
        .,*) echo 0 > $slice/cpu.idle; echo $weight > $slice/cpu.weight;;
        *,idle) echo 2 > $slice/cpu.shares;;
        *) echo $((weight * 1024 / 100)) > $slice/cpu.shares;;
        esac
        test "$top" = . || continue
        echo ${low:-0} > $slice/memory.low
        echo $((${min:-0} / 4096 * 4096)) > $slice/memory.min
    done
done
true
"""


class Machine:
    """A host below a directory, with the cgroup rules of the kernel.

    ``has_idle`` says whether the kernel has ``cpu.idle``.
    """

    def __init__(self, root, layout, has_systemd, has_idle=True):
        self.root = root
        self.layout = layout
        self.has_idle = has_idle
        self.cgroups = root / 'sys/fs/cgroup'
        self.log = root / 'systemctl.log'
        self._mkdir = os.mkdir
        self._write_text = pathlib.Path.write_text
        v1, v2 = LAYOUTS[layout]
        for directory in ('sys/fs/cgroup', 'etc', 'usr/lib/systemd/system'):
            (root / directory).mkdir(parents=True)
        for name in (*v1, 'pids', 'systemd') if v1 else ():
            self.fill(self.cgroups / name, {
                'cgroup.procs': '', 'cpuset.cpus': '0-3', 'cpuset.mems': '0',
                'cpu.stat': ''})
            for link in name.split(',') if ',' in name else ():
                (self.cgroups / link).symlink_to(name)
        if v2 is not None:
            self.fill(self.cgroups / v2, {
                'cgroup.controllers': 'hugetlb pids' + (
                    ' cpuset cpu io memory' if layout == 'v2' else ''),
                'cgroup.subtree_control': 'pids',
                'cpu.stat': '' if layout == 'v2' else None})
        if has_systemd:
            (root / 'run/systemd/system').mkdir(parents=True)
            new = {'cpu.weight': '100', 'cpu.idle': '0'}
            self.fill(self.cgroups.parent / 'new', new)
            self.fill(self.cgroups.parent / 'new/cpu,cpuacct',
                      {'cpu.shares': '1024'})

    def fill(self, path, files):
        """Write files, dict, name -> text; None stands for no file."""
        path.mkdir(exist_ok=True)
        for name, text in files.items():
            if text is not None:
                self._write_text(path / name, text + '\n')

    def mkdir(self, path, *args, **kwargs):
        """Make a directory; below the cgroups, with the files of a cgroup."""
        self._mkdir(path, *args, **kwargs)
        path = pathlib.Path(path)
        if self.cgroups not in path.parents:
            return
        idle = '0' if self.has_idle else None
        control = path.parent / 'cgroup.subtree_control'
        if control.exists():
            enabled = control.read_text().split()
            self.fill(path, {
                'cgroup.controllers': ' '.join(enabled),
                'cgroup.subtree_control': '',
                'cpu.weight': '100' if 'cpu' in enabled else None,
                'cpu.idle': idle, 'io.weight': 'default 100\n8:0 50',
                'io.bfq.weight': 'default 100',
                'memory.low': '0', 'memory.min': '0'})
        else:
            self.fill(path, {
                'tasks': '', 'cpuset.cpus': '', 'cpuset.mems': '',
                'cpu.shares': '1024', 'cpu.idle': idle,
                'blkio.bfq.weight': '100'})

    def write_text(self, path, text):
        """Write to a file; to a file of a cgroup, as the kernel does."""
        if self.cgroups in path.parents:
            idle = path.with_name('cpu.idle')
            if path.name == 'cgroup.subtree_control':
                text = path.read_text().strip() + ' ' + text.lstrip('+')
            elif path.name.startswith('io.'):
                text = 'default %s\n8:0 50' % text
            elif path == idle:
                for name, weights in (('cpu.shares', ('1024', '3')),
                                      ('cpu.weight', ('100', '0'))):
                    if path.with_name(name).exists():
                        self._write_text(path.with_name(name),
                                         weights[int(text)])
            elif (path.name in ('cpu.shares', 'cpu.weight') and
                    idle.exists() and idle.read_text().strip() == '1'):
                raise OSError(errno.EINVAL, 'Invalid argument', str(path))
        return self._write_text(path, text)

    def values(self, *paths):
        """Return the first line of each file, a list of str."""
        return [(self.cgroups / path).read_text().split('\n')[0]
                for path in paths]

    def directories(self, suffix):
        """Return the cgroups of the priorities, a list of relative paths."""
        paths = self.cgroups.rglob('*_prio_machine' + suffix)
        return sorted(str(path.relative_to(self.cgroups)) for path in paths)

    def pop_systemctl_calls(self):
        """Return the arguments of the calls since the last time, a list."""
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return calls


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a function that makes the Machine of a layout."""
    def make(layout, has_systemd=False, **kwargs):
        machine = Machine(tmp_path / 'host', layout, has_systemd, **kwargs)
        monkeypatch.setattr(os, 'mkdir', machine.mkdir)
        monkeypatch.setattr(
            pathlib.Path, 'write_text',
            lambda path, text: machine.write_text(path, text))
        script = tmp_path / 'bin' / 'systemctl'
        script.parent.mkdir()
        script.write_text(SYSTEMCTL % vars(machine))
        script.chmod(0o755)
        monkeypatch.setenv('PATH', str(script.parent), prepend=os.pathsep)
        machine.systemctl = script
        return machine
    (tmp_path / 'host').mkdir()
    return make


@pytest.fixture(params=[(layout, has_systemd) for layout in LAYOUTS
                        for has_systemd in (False, True)],
                ids=lambda case: case[0] + '-systemd' * case[1])
def machine(request, make):
    """Return a Machine of each layout, with and without systemd."""
    return make(*request.param)


@pytest.fixture
def run(capsys):
    """Return a function that runs a command on a Machine.

    The function returns (exit status, lines of standard output, lines of
    standard error).
    """
    def run(machine, command, *options):
        try:
            status = host_command.main(
                [command, '--root', str(machine.root), *options])
        except SystemExit as done:
            status = done.code
        out, err = capsys.readouterr()
        # The remedies repeat the options of the command.
        root = ' prepare --root %s' % machine.root
        return (status, *(text.replace(root, ' prepare').splitlines()
                          for text in (out, err)))
    return run


def partitions(*tops):
    """Return the relative paths of the partitions below directories."""
    return sorted('%s%s_prio_machine.partition' % (top, priority)
                  for top in tops for priority in ('high', 'low'))


def test_prepare_and_check(machine, run):
    status, out, err = run(machine, 'check')
    assert (1, []) == (status, out)
    assert all(line.endswith('run "nova-prio-host prepare" as root.')
               for line in err)

    status, out, err = run(machine, 'prepare')
    assert (0, []) == (status, err)
    v1 = [name + '/' for name in V1]
    assert machine.directories('.partition') == partitions(
        *{'v1': v1, 'v2': [''], 'hybrid': [*v1, 'unified/']}[machine.layout])
    made = [line for line in out if line.startswith('made ')]
    assert len(made) == len(machine.directories('.partition'))

    assert (0, [], []) == run(machine, 'check')
    machine.pop_systemctl_calls()
    assert (0, [], []) == run(machine, 'prepare')
    assert [] == machine.pop_systemctl_calls()


@pytest.mark.parametrize('layout', ['v1', 'hybrid'])
def test_values_of_v1(make, run, layout):
    machine = make(layout)
    run(machine, 'prepare')
    for name in partitions(''):
        assert ['0-3', '0'] == machine.values(
            'cpuset/%s/cpuset.cpus' % name, 'cpuset/%s/cpuset.mems' % name)
    assert ['1024', '0', '1'] == machine.values(
        'cpu/high_prio_machine.partition/cpu.shares',
        'cpu/high_prio_machine.partition/cpu.idle',
        'cpu/low_prio_machine.partition/cpu.idle')


def test_values_of_v2(make, run):
    machine = make('v2')
    run(machine, 'prepare')
    for directory in ('', *(name + '/' for name in partitions(''))):
        assert {'cpu', 'cpuset', 'io', 'memory'} == set(machine.values(
            directory + 'cgroup.subtree_control')[0].split()) - {'pids'}
    assert ['100', '0', '1'] == machine.values(
        'high_prio_machine.partition/cpu.weight',
        'high_prio_machine.partition/cpu.idle',
        'low_prio_machine.partition/cpu.idle')


@pytest.mark.parametrize('layout, values', [
    ('v1', {'cpu/high_prio_machine.slice/cpu.shares': '1024',
            'cpu/low_prio_machine.slice/cpu.shares': '2'}),
    ('v2', {'high_prio_machine.slice/cpu.weight': '100',
            'low_prio_machine.slice/cpu.idle': '1'}),
])
def test_values_of_slices(make, run, layout, values):
    machine = make(layout, has_systemd=True)
    _, out, _ = run(machine, 'prepare')
    assert list(values.values()) == machine.values(*values)
    assert [line.split()[0] + ' ' + line.split('/')[-1].split()[-1]
            for line in out if '.slice' in line] == [
        'wrote high_prio_machine.slice', 'started high_prio_machine.slice',
        'wrote low_prio_machine.slice', 'started low_prio_machine.slice']
    assert machine.pop_systemctl_calls() == [
        'daemon-reload', 'start high_prio_machine.slice',
        'daemon-reload', 'start low_prio_machine.slice']


@pytest.mark.parametrize('layout, first, last', [
    # With v1, systemd removes directories that exist before the slices. With
    # v2, the directories show whether the kernel has cpu.idle.
    ('v1', 'started', 'made'), ('v2', 'made', 'wrote')])
def test_order_of_actions(make, run, layout, first, last):
    out = run(make(layout, has_systemd=True), 'prepare')[1]
    verbs = [line.split()[0] for line in out]
    assert {first, last} < set(verbs)
    assert last not in verbs[:len(verbs) - verbs[::-1].index(first)]


def test_hybrid_layout_keeps_controllers_of_v2(make, run):
    machine = make('hybrid')
    assert 0 == run(machine, 'prepare')[0]
    assert ['pids', ''] == machine.values(
        'unified/cgroup.subtree_control',
        'unified/low_prio_machine.partition/cgroup.subtree_control')


@pytest.mark.parametrize('name, number, text', [
    ('cpu.shares', 1, '10'), ('cpu.shares', 10000, '102400'),
    ('cpu.weight', 1, '1'), ('cpu.weight', 10000, '10000'),
    ('blkio.weight', 1, '10'), ('blkio.weight', 100, '500'),
    ('blkio.weight', 10000, '1000'), ('blkio.bfq.weight', 10000, '1000'),
    ('io.weight', 10000, '10000'), ('io.bfq.weight', 10000, '1000')])
def test_weight_is_in_the_range_of_its_file(name, number, text):
    weight, = (weight for version in (hierarchies.CgroupV1,
                                      hierarchies.CgroupV2)
               for weight in (version.CPU, *version.IO)
               if weight.name == name)
    assert text == weight.convert(number)


def test_prepare_writes_no_slices_without_systemd(make, run):
    machine = make('v2')
    run(machine, 'prepare')
    assert [] == machine.directories('.slice')
    assert not (machine.root / 'etc/systemd').exists()


@pytest.mark.parametrize('layout', LAYOUTS)
def test_each_removed_directory_is_found_and_repaired(make, run, layout):
    machine = make(layout, has_systemd=True)
    run(machine, 'prepare')
    for name in machine.directories('.*'):
        path = machine.cgroups / name
        if path.is_dir():
            shutil.rmtree(path)
            status, _, err = run(machine, 'check')
            assert (1, 1) == (status, len(err))
            assert err[0].startswith('%s is missing, ' % path)
            status, out, _ = run(machine, 'prepare')
            assert 0 == status
            assert out[0] in ('made %s' % path, 'started %s' % path.name)
            assert (0, [], []) == run(machine, 'check')


def change(machine, name, text):
    """Change a file of a cgroup; return its path."""
    path = machine.cgroups / name
    machine.fill(path.parent, {path.name: text})
    return path


@pytest.mark.parametrize('layout, name, present, expected', [
    ('v1', 'cpuset/low_prio_machine.partition/cpuset.cpus', '', '0-3'),
    ('v1', 'cpuset/low_prio_machine.partition/cpuset.cpus', '0-2', '0-3'),
    ('v1', 'cpuset/high_prio_machine.partition/cpuset.mems', '', '0'),
    ('v1', 'cpu/high_prio_machine.partition/cpu.shares', '10240', '1024'),
    ('v1', 'cpu/high_prio_machine.slice/cpu.shares', '10240', '1024'),
    ('v1', 'cpu/low_prio_machine.partition/cpu.idle', '0', '1'),
    ('v2', 'high_prio_machine.partition/cpu.weight', '10000', '100'),
    ('v2', 'low_prio_machine.partition/cpu.idle', '0', '1'),
    ('v2', 'high_prio_machine.slice/cpu.weight', '1', '100'),
])
def test_each_changed_value_is_found_and_repaired(
        make, run, layout, name, present, expected):
    machine = make(layout, has_systemd=True)
    run(machine, 'prepare')
    path = change(machine, name, present)
    path = path.parent.parent.resolve() / path.parent.name / path.name
    status, _, err = run(machine, 'check')
    assert (1, 1) == (status, len(err))
    assert err[0].startswith('%s is %s, but %s is expected: run '
                             '"nova-prio-host prepare" as root'
                             % (path, present or 'empty', expected))
    machine.pop_systemctl_calls()
    status, out, _ = run(machine, 'prepare')
    assert (0, [expected]) == (status, machine.values(name))
    is_slice = '.slice/' in name
    verb = 'had systemd set' if is_slice else 'set'
    assert ['%s %s to %s' % (verb, path, expected)] == out
    assert machine.pop_systemctl_calls() == (
        ['daemon-reload'] if is_slice else [])


def test_missing_controller_of_v2_is_found_and_repaired(make, run):
    machine = make('v2')
    run(machine, 'prepare')
    path = change(machine, 'cgroup.subtree_control', 'cpu cpuset io pids')
    assert run(machine, 'check')[2] == [
        '%s is without memory: run "nova-prio-host prepare" as root.' % path]
    assert run(machine, 'prepare')[1] == ['enabled memory in %s' % path]


@pytest.mark.parametrize('layout, values', [
    ('v1', {'cpu/high_prio_machine.partition/cpu.shares': '3072',
            'cpu/high_prio_machine.slice/cpu.shares': '3072',
            'cpu/low_prio_machine.partition/cpu.idle': '0',
            'cpu/low_prio_machine.partition/cpu.shares': '102',
            'cpu/low_prio_machine.slice/cpu.shares': '102',
            'blkio/low_prio_machine.partition/blkio.bfq.weight': '20',
            'blkio/high_prio_machine.partition/blkio.bfq.weight': '100'}),
    ('v2', {'high_prio_machine.partition/cpu.weight': '300',
            'high_prio_machine.slice/cpu.weight': '300',
            'low_prio_machine.partition/cpu.idle': '0',
            'low_prio_machine.partition/cpu.weight': '10',
            'low_prio_machine.slice/cpu.weight': '10',
            'low_prio_machine.partition/io.weight': 'default 20',
            'low_prio_machine.partition/io.bfq.weight': 'default 20',
            'high_prio_machine.partition/io.weight': 'default 100'}),
])
def test_prepare_sets_weights(make, run, layout, values):
    machine = make(layout, has_systemd=True)
    # Begin with idle, where the kernel refuses a weight.
    run(machine, 'prepare')
    options = ['--high-weight', '300', '--low-weight', '10',
               '--io-weight', '20']
    assert 0 == run(machine, 'prepare', *options)[0]
    assert list(values.values()) == machine.values(*values)
    assert (0, [], []) == run(machine, 'check', *options)
    assert (0, [], []) == run(machine, 'prepare', *options)
    unit = machine.root / 'etc/systemd/system/low_prio_machine.slice'
    assert unit.read_text().endswith(
        'MemoryAccounting=yes\nCPUWeight=10\nIOWeight=20\n')
    # Return to idle.
    assert 0 == run(machine, 'prepare')[0]
    assert (0, [], []) == run(machine, 'check')


def test_prepare_sets_memory_limits(make, run):
    machine = make('v2', has_systemd=True)
    options = ['--memory-low', '64G', '--memory-min', '10000']
    assert 0 == run(machine, 'prepare', *options)[0]
    assert [str(64 * 2 ** 30), '8192', str(64 * 2 ** 30)] == machine.values(
        'high_prio_machine.partition/memory.low',
        'high_prio_machine.partition/memory.min',
        'high_prio_machine.slice/memory.low')
    unit = machine.root / 'etc/systemd/system/high_prio_machine.slice'
    assert unit.read_text().endswith(
        'MemoryAccounting=yes\nCPUWeight=100\n'
        'MemoryLow=68719476736\nMemoryMin=10000\n')


@pytest.mark.parametrize('option', ['--memory-low', '--memory-min'])
@pytest.mark.parametrize('layout', ['v1', 'hybrid'])
def test_memory_needs_v2(make, run, layout, option):
    machine = make(layout)
    for command in ('prepare', 'check'):
        status, _, err = run(machine, command, option, '1G')
        assert (1, [
            '%s has no cgroup v2 with the controller memory: boot the host '
            'with cgroup v2, or leave out --memory-low and --memory-min.'
            % machine.cgroups]) == (status, err)


def test_io_weight_needs_a_kernel_with_io_weights(make, run):
    machine = make('v2')
    run(machine, 'prepare')
    path = machine.cgroups / 'low_prio_machine.partition'
    (path / 'io.weight').unlink()
    assert 0 == run(machine, 'prepare', '--io-weight', '50')[0]
    (path / 'io.bfq.weight').unlink()
    for command in ('prepare', 'check'):
        status, _, err = run(machine, command, '--io-weight', '50')
        assert (1, ['%s/io.weight is missing, but 50 is expected: use a '
                    'kernel that has it, or leave out the option that asks '
                    'for it.' % path]) == (status, err)


def test_kernel_without_idle_has_lowest_weight(make, run):
    machine = make('v2', has_systemd=True, has_idle=False)
    assert 0 == run(machine, 'prepare')[0]
    assert ['1', '1'] == machine.values(
        'low_prio_machine.partition/cpu.weight',
        'low_prio_machine.slice/cpu.weight')
    unit = machine.root / 'etc/systemd/system/low_prio_machine.slice'
    assert unit.read_text().endswith('MemoryAccounting=yes\nCPUWeight=1\n')
    assert (0, [], []) == run(machine, 'check')


def test_kernel_without_idle_has_lowest_shares_on_v1(make, run):
    machine = make('v1', has_idle=False)
    assert 0 == run(machine, 'prepare')[0]
    assert ['2'] == machine.values('cpu/low_prio_machine.partition/cpu.shares')
    assert (0, [], []) == run(machine, 'check')


@pytest.mark.parametrize('layout', ['v1', 'v2'])
def test_systemd_without_idle_has_lowest_weight(make, run, layout):
    machine = make(layout, has_systemd=True)
    script = machine.systemctl.read_text()
    machine.systemctl.write_text(script.replace('^CPUWeight=//p',
                                                r'^CPUWeight=\([0-9]\)/\1/p'))
    assert (0, []) == run(machine, 'prepare')[::2]
    assert (['10'] if layout == 'v1' else ['1']) == machine.values(
        'cpu/low_prio_machine.slice/cpu.shares' if layout == 'v1'
        else 'low_prio_machine.slice/cpu.weight')


def test_value_that_systemd_does_not_set_is_reported(make, run, monkeypatch):
    """A drop-in unit may override the value."""
    machine = make('v2', has_systemd=True)
    run(machine, 'prepare')
    machine.systemctl.write_text('#!/bin/sh\n')
    monkeypatch.setattr(host, 'SETTLE_SECONDS', 0.2)
    path = change(machine, 'high_prio_machine.slice/cpu.weight', '7')
    status, _, err = run(machine, 'prepare')
    assert (1, [
        '%s is 7, but 100 is expected: run "nova-prio-host prepare" as '
        'root, and if that does not help, look for drop-ins with '
        '"systemctl cat high_prio_machine.slice".' % path]) == (status, err)


def test_prepare_waits_for_systemd(make, run):
    machine = make('v2', has_systemd=True)
    run(machine, 'prepare')
    at_once = machine.systemctl.with_name('at_once')
    machine.systemctl.rename(at_once)
    machine.systemctl.write_text(
        '#!/bin/sh\n(sleep 0.3; %s "$@") >&- 2>&- &\n' % at_once)
    machine.systemctl.chmod(0o755)
    change(machine, 'high_prio_machine.slice/cpu.weight', '7')
    assert (0, []) == run(machine, 'prepare')[::2]


def test_systemctl_failure_is_reported(make, run):
    machine = make('v2', has_systemd=True)
    machine.systemctl.write_text('#!/bin/sh\necho No D-Bus. >&2\nexit 3\n')
    status, _, err = run(machine, 'prepare')
    assert 1 == status
    assert err[0].startswith('%s/etc/systemd/system/high_prio_machine.slice '
                             'is missing: ' % machine.root)
    assert all('systemctl' in line and line.endswith(' No D-Bus.')
               for line in err)


def test_packaged_slices_are_not_overwritten(make, run):
    machine = make('v2', has_systemd=True)
    packaged = machine.root / 'usr/lib/systemd/system'
    run(machine, 'prepare')
    written = machine.root / 'etc/systemd'
    for unit in written.glob('system/*.slice'):
        shutil.copy(unit, packaged)
    shutil.rmtree(written)
    _, out, _ = run(machine, 'prepare')
    assert not [line for line in out if line.startswith('wrote ')]
    assert not (machine.root / 'etc/systemd').exists()
    # Other options override the packaged slices.
    status, _, err = run(machine, 'check', '--low-weight', '10')
    assert 1 == status
    assert err[2] == (
        '%s/low_prio_machine.slice does not match the options: run '
        '"nova-prio-host prepare --low-weight 10" as root.' % packaged)
    _, out, _ = run(machine, 'prepare', '--low-weight', '10')
    assert [line for line in out if line.startswith('wrote ')] == [
        'wrote %s/etc/systemd/system/low_prio_machine.slice' % machine.root]


def test_slices_can_be_read_by_all(make, run):
    machine = make('v2', has_systemd=True)
    run(machine, 'prepare')
    for path in (machine.root / 'etc/systemd/system').iterdir():
        assert 0o644 == path.stat().st_mode & 0o777


def test_slices_match_the_partitions_of_guests():
    """The slice of a partition has its name and the suffix .slice."""
    for text in guest_xml.PARTITIONS.values():
        assert text in ('/high_prio_machine', '/low_prio_machine')
    assert {text[1:] for text in guest_xml.PARTITIONS.values()} == set(
        hierarchies.PARTITIONS)


def test_service_starts_before_libvirt():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    path = UNITS / 'nova-prio-host.service'
    unit.read(path)
    assert 'nova-prio-host prepare' == unit['Service']['ExecStart']
    assert 'oneshot' == unit['Service']['Type']
    before = [name for line in path.read_text().splitlines()
              if line.startswith('Before=') for name in line[7:].split()]
    assert {'libvirtd.service', 'virtqemud.service',
            'libvirt-guests.service'} < set(before)
    # systemd starts sockets before services: an order before a socket would
    # be a cycle.
    assert not [name for name in before if name.endswith('.socket')]


@pytest.mark.parametrize('options, sentence', [
    (['--low-weight', '0'], "argument --low-weight: '0' is given; allowed are "
     "whole numbers from 1 to 10000, and idle"),
    (['--low-weight', 'Idle'], "argument --low-weight: 'Idle' is given; "
     "allowed are whole numbers from 1 to 10000, and idle"),
    (['--high-weight', 'idle'], "argument --high-weight: 'idle' is given; "
     "allowed are whole numbers from 1 to 10000"),
    (['--high-weight', '10001'], "argument --high-weight: '10001' is given; "
     "allowed are whole numbers from 1 to 10000"),
    (['--io-weight', '1.5'], "argument --io-weight: '1.5' is given; allowed "
     "are whole numbers from 1 to 10000"),
    (['--memory-low', '50%'], "argument --memory-low: '50%' is given; allowed "
     "are numbers of bytes, with an optional suffix K, M, G or T, such as "
     "8G"),
])
def test_wrong_value_is_refused(make, run, options, sentence):
    machine = make('v2')
    status, _, err = run(machine, 'prepare', *options)
    assert (2, 'nova-prio-host: error: ' + sentence) == (status, err[-1])
    # The file of options has the same checks.
    path = machine.root / 'etc/nova-prio-host.conf'
    path.write_text(' '.join(options))
    status, _, err = run(machine, 'prepare')
    assert (2, 'nova-prio-host (with %s): error: %s' % (path, sentence)) == (
        status, err[-1])
    assert [] == machine.directories('.partition')


def test_unknown_command_is_refused(make, run):
    assert 2 == run(make('v2'), 'repair')[0]


def test_options_are_read_from_file(make, run):
    machine = make('v2')
    (machine.root / 'etc/nova-prio-host.conf').write_text(
        '# A comment.\n--low-weight 10\n\n--high-weight 200  # Another.\n')
    weights = ['low_prio_machine.partition/cpu.weight',
               'high_prio_machine.partition/cpu.weight']
    run(machine, 'prepare')
    assert ['10', '200'] == machine.values(*weights)
    assert (0, [], []) == run(machine, 'check')
    # The command line overrides the file.
    run(machine, 'prepare', '--low-weight', '20')
    assert ['20', '200'] == machine.values(*weights)


def test_json_format(make, run):
    machine = make('v2')
    status, out, err = run(machine, 'check', '--json')
    assert (1, []) == (status, err)
    assert json.loads('\n'.join(out)) == run(machine, 'check')[2]
    run(machine, 'prepare')
    assert (0, ['[]'], []) == run(machine, 'check', '--json')
    assert 2 == run(machine, 'prepare', '--json')[0]


@pytest.mark.parametrize('command', ['prepare', 'check'])
def test_missing_cgroups_are_reported(make, run, command):
    machine = make('v2')
    shutil.rmtree(machine.cgroups)
    assert run(machine, command) == (1, [], [
        '%s has no hierarchy with the controller cpu: mount the cgroups of '
        'the host there.' % machine.cgroups])


@pytest.mark.parametrize('code', [errno.EACCES, errno.EROFS])
def test_missing_permission_is_reported(make, run, monkeypatch, code):
    machine = make('v1')

    def mkdir(path, *args, **kwargs):
        raise OSError(code, os.strerror(code), path)
    monkeypatch.setattr(os, 'mkdir', mkdir)
    path = machine.cgroups / 'blkio/high_prio_machine.partition'
    assert run(machine, 'prepare') == (1, [], [
        '%s is missing, but guests of this priority need it: %s. Run this as '
        'root, on the host itself.' % (path, os.strerror(code))])


def test_refused_value_does_not_stop_the_rest(make, run):
    """The command sets the other values."""
    machine = make('v2')
    write_text = machine.write_text

    def refuse(path, text):
        if path.name == 'cpu.idle':
            raise OSError(errno.EINVAL, 'Invalid argument', str(path))
        return write_text(path, text)
    machine.write_text = refuse
    status, out, err = run(machine, 'prepare', '--io-weight', '50')
    path = machine.cgroups / 'low_prio_machine.partition'
    assert (1, ['%s/cpu.idle is 0, but 1 is expected: Invalid argument.'
                % path]) == (status, err)
    assert 'set %s/io.weight to 50' % path in out


def test_prepare_of_image_writes_only_units(tmp_path, run):
    """An image of a host has no cgroups."""
    class Image:
        root = tmp_path
    (tmp_path / 'etc/systemd/system').mkdir(parents=True)
    status, out, err = run(Image, 'prepare')
    assert (0, 2, []) == (status, len(out), err)
    assert ['high_prio_machine.slice', 'low_prio_machine.slice'] == sorted(
        path.name for path in (tmp_path / 'etc/systemd/system').iterdir())
    assert (0, [], []) == run(Image, 'check')


def test_bundle_needs_only_the_standard_library(tmp_path):
    path = tmp_path / 'nova-prio-host'
    bundle.write(path)
    for command in [path], [sys.executable, '-I', '-S', path]:
        done = subprocess.run(
            [*command, 'check', '--low-weight', '7', '--root', tmp_path],
            capture_output=True, text=True, timeout=60)
        assert (1, '') == (done.returncode, done.stdout)
        assert 'has no hierarchy with the controller cpu' in done.stderr


def test_remedy_has_the_options_of_the_check(make, run):
    machine = make('v2')
    run(machine, 'prepare')
    _, _, err = run(machine, 'check', '--low-weight', '7')
    assert err[0].endswith(
        'run "nova-prio-host prepare --low-weight 7" as root.')


@pytest.mark.parametrize('text, sentence', [
    ('--low-weight 10\nlow-weight 20\n',
     "line 2: 'low-weight' is given; allowed are options of prepare"),
    ('check', "line 1: 'check' is given; allowed are options"),
    ('\n--high-weight 7 --json',
     "line 2: '--json' is given; allowed are options of prepare"),
])
def test_wrong_line_in_file_of_options_is_refused(make, run, text, sentence):
    machine = make('v2')
    (machine.root / 'etc/nova-prio-host.conf').write_text(text)
    status, _, err = run(machine, 'prepare')
    assert 2 == status
    assert sentence in err[-1]
    assert [] == machine.directories('.partition')


def test_root_must_be_a_directory(make, run, capsys):
    assert 2 == pytest.raises(SystemExit, host_command.main, [
        'check', '--root', '/dev/null']).value.code
    assert ('argument --root: /dev/null is not a directory' in
            capsys.readouterr().err)
