# SPDX-License-Identifier: Apache-2.0

"""The command nova-prio-host on the cgroups of this machine.

These tests need root, but no libvirt. The tests of slices start an installed
systemd in its own namespaces.
"""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from nova_prio_host import hierarchies

CGROUPS = pathlib.Path('/sys/fs/cgroup')
SYSTEMD = pathlib.Path('/lib/systemd/systemd')
COMMAND = [sys.executable, '-m', 'nova_prio_host']
TIMEOUT_SECONDS = 60
GROUP = 'nova-prio-test-systemd-%d' % os.getpid()

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='needs root')

# Start a systemd without units, with its own /etc and /run. $1 lists the
# mounts of all hierarchies of this machine.
INSIDE = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
echo "$1" | while read -r target type options; do
    mkdir "$target"
    mount -t "$type" -o "$options" cgroup "$target"
done
mount -t tmpfs tmpfs /mnt
mkdir /mnt/new /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/new,workdir=/mnt/work etc /etc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system
printf '[Unit]\\nDefaultDependencies=no\\n' >/etc/systemd/system/test.target
export container=lxc
exec %s --system --unit=test.target --log-target=null --show-status=no
""" % SYSTEMD


def partitions():
    """Return the paths of all partitions on this machine."""
    return sorted(itertools.chain(CGROUPS.glob('*_prio_machine.partition'),
                                  CGROUPS.glob('*/*_prio_machine.partition')))


def run(command, *options, inside=()):
    """Run the command; return exit status, output lines, error lines."""
    done = subprocess.run([*inside, *COMMAND, command, *options],
                          capture_output=True, text=True,
                          timeout=TIMEOUT_SECONDS)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.fixture
def clean():
    """Skip if partitions exist, and remove the partitions of the test."""
    if pathlib.Path('/run/systemd/system').exists() or partitions():
        pytest.skip('this machine serves guests')
    yield
    for path in partitions():
        path.rmdir()


def test_prepare_creates_missing_partitions(clean):
    assert 1 == run('check')[0]
    assert (0, []) == run('prepare')[::2]

    # Each hierarchy with a controller has both partitions.
    tops = {path.parent for path in partitions()}
    for line in pathlib.Path('/proc/self/mounts').read_text().splitlines():
        _, target, fs_type, options, *_ = line.split()
        if fs_type == 'cgroup' and hierarchies.V1_CONTROLLERS & {
                *options.split(',')}:
            assert pathlib.Path(target) in tops
    assert len(partitions()) == 2 * len(tops)
    for path in partitions():
        for name in ('cpuset.cpus', 'cpuset.mems'):
            if (path.parent / name).exists():
                assert (path / name).read_text() == (
                    path.parent / name).read_text() != '\n'
    [low] = [path for path in partitions()
             if path.name.startswith('low') and (path / 'cpu.idle').exists()]
    high = low.with_name('high_prio_machine.partition')
    assert ['0\n', '1\n'] == [(path / 'cpu.idle').read_text()
                              for path in (high, low)]

    assert (0, ['[]'], []) == run('check', '--json')
    assert (0, [], []) == run('prepare')

    for path in partitions():
        path.rmdir()
        status, out, _ = run('check', '--json')
        [sentence] = json.loads('\n'.join(out))
        assert 1 == status
        assert sentence.startswith('%s is missing' % path)
        status, out, _ = run('prepare')
        assert (0, 'made %s' % path) == (status, out[0])
    assert (0, [], []) == run('check')


def test_prepare_changes_low_weight_from_idle_and_back(clean):
    run('prepare')
    assert 1 == run('check', '--low-weight', '10')[0]
    assert 0 == run('prepare', '--low-weight', '10')[0]
    [path] = [path for path in partitions()
              if path.name.startswith('low') and (path / 'cpu.idle').exists()]
    numbers = {'cpu.shares': '102\n', 'cpu.weight': '10\n'}
    assert '0\n' == (path / 'cpu.idle').read_text()
    assert [text for name, text in numbers.items()
            if (path / name).exists()] == [
        (path / name).read_text() for name in numbers
        if (path / name).exists()]
    assert 0 == run('prepare')[0]
    assert '1\n' == (path / 'cpu.idle').read_text()


@pytest.fixture
def inside():
    """Start a systemd on cgroup v1; yield the command that enters it."""
    mounts = [line.split()[1:4] for line in
              pathlib.Path('/proc/self/mounts').read_text().splitlines()]
    mounts = [(target, fs_type, options)
              for target, fs_type, options in mounts
              if fs_type in ('cgroup', 'cgroup2')]
    if not SYSTEMD.exists() or not (CGROUPS / 'cpu').exists():
        pytest.skip('needs an installed systemd, and cgroup v1')
    groups = [pathlib.Path(target) / GROUP for target, _, _ in mounts]
    with contextlib.ExitStack() as stack:
        for group in groups:
            group.mkdir()
            stack.callback(remove, group)
            for name in ('cpuset.cpus', 'cpuset.mems'):
                if (group / name).exists():
                    (group / name).write_text(
                        (group.parent / name).read_text())
        join = ''.join('echo $$ >%s/cgroup.procs; ' % group
                       for group in groups)
        process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c',
             join + 'exec "$@"', 'sh', 'unshare', '--mount', '--uts', '--ipc',
             '--net', '--pid', '--cgroup', '--fork', '--kill-child',
             'sh', '-c', INSIDE, 'sh',
             '\n'.join(map(' '.join, mounts))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        stack.callback(process.wait, TIMEOUT_SECONDS)
        stack.callback(process.kill)
        yield wait_for_systemd(process)


def wait_for_systemd(process):
    """Wait until a systemd answers; return the command that enters it."""
    children = pathlib.Path('/proc/%d/task/%d/children' % (
        process.pid, process.pid))
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)
        assert process.poll() is None
        for child in children.read_text().split():
            inside = ['nsenter', '--target', child, '--mount', '--uts',
                      '--ipc', '--net', '--pid', '--cgroup']
            if 0 == subprocess.run([*inside, 'systemctl', 'is-active',
                                    'test.target'], timeout=TIMEOUT_SECONDS,
                                   capture_output=True).returncode:
                return inside
    raise AssertionError('systemd does not answer')


def remove(group):
    """Remove a cgroup and its children as soon as they have no process."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    below = [path for path in group.rglob('*') if path.is_dir()]
    for path in [*sorted(below, reverse=True), group]:
        while True:
            try:
                path.rmdir()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)


def test_systemd_applies_slices_and_keeps_directories(inside):
    def shell(script):
        return subprocess.run([*inside, 'sh', '-c', script], check=True,
                              capture_output=True, text=True,
                              timeout=TIMEOUT_SECONDS).stdout.split()

    status, out, err = run('prepare', inside=inside)
    assert (0, []) == (status, err)
    assert 'started low_prio_machine.slice' in out
    shares = 'cat /sys/fs/cgroup/cpu/*_prio_machine.slice/cpu.shares'
    assert ['1024', '2'] == shell(shares)
    shell('for _ in 1 2 3; do systemctl daemon-reload; sleep 0.2; done')
    shell('systemctl daemon-reexec; sleep 0.5')
    assert (0, [], []) == run('check', inside=inside)
    assert (0, [], []) == run('prepare', inside=inside)

    # Another program changes a value; then the options change.
    shell('echo 500 >/sys/fs/cgroup/cpu/low_prio_machine.slice/cpu.shares')
    assert 1 == run('check', inside=inside)[0]
    assert 0 == run('prepare', inside=inside)[0]
    assert ['1024', '2'] == shell(shares)
    assert 0 == run('prepare', '--low-weight', '10', inside=inside)[0]
    assert ['1024', '102'] == shell(shares)
    assert 0 == run('prepare', inside=inside)[0]

    # A drop-in overrides the unit; the remedy names the command to show it.
    shell('mkdir /etc/systemd/system/low_prio_machine.slice.d; printf '
          '"[Slice]\\nCPUWeight=50\\n" '
          '>/etc/systemd/system/low_prio_machine.slice.d/own.conf; '
          'systemctl daemon-reload')
    status, _, err = run('prepare', inside=inside)
    assert 1 == status
    assert 'low_prio_machine.slice/cpu.shares is 512, but 2 is' in err[0]
    assert '"systemctl cat low_prio_machine.slice"' in err[0]
