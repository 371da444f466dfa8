# SPDX-License-Identifier: Apache-2.0

"""An isolated libvirtd: a host for real guests.

libvirtd runs in mount, UTS, PID and cgroup namespaces of its own. Therefore it
cannot see the libvirtd, systemd and guests of this machine. When the first
process of the namespaces ends, the kernel ends all others, guests included.
"""

import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

#: Maximum seconds of a command, and of a wait for another process.
TIMEOUT_SECONDS = 60
#: The v1 and v2 controllers for libvirt.
CONTROLLERS = ('cpu', 'cpuacct', 'cpuset')
#: Prefix of directories and cgroups. The PID of the process that created them
#: follows.
PREFIX = 'nova-prio-'
#: The cgroup of all processes except guests, on cgroup v2.
DAEMONS = 'daemons'

# Directory of the host -> path at which libvirt expects it. /run is empty:
# without a D-Bus socket, libvirt cannot register guests with machined.
MOUNTS = {'run': '/run', 'etc': '/etc/libvirt', 'lib': '/var/lib/libvirt',
          'cache': '/var/cache/libvirt', 'log': '/var/log/libvirt',
          'passwd': '/etc/passwd', 'group': '/etc/group'}

# Users and groups that libvirt requires, although the tests do not use them.
# If the system has the same names, its entries come first.
USERS = {
    'passwd': 'libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin\n',
    'group': 'libvirt-qemu:x:64055:\nkvm:x:64056:\n',
}

CONFIGURATION = {
    'libvirtd.conf': '''\
auth_unix_rw = "none"
unix_sock_group = "root"
host_uuid = "%(uuid)s"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
''',
    'virtlogd.conf': '',
    'qemu.conf': '''\
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = ["cpu", "cpuacct", "cpuset"]
''',
}

# The first process of the host. Guests are its children, so its wait reaps the
# guests that end.
INIT = '''
set -e
hostname "$1"
mount --make-rprivate /
%(mounts)s
mount -t tmpfs none /sys/fs/cgroup
%(cgroups)s
sleep infinity >/dev/null &
echo ready
exec >/dev/null
wait
'''


class Host:
    """A context manager: a host with libvirtd and virtlogd.

    ``uri`` is the libvirt URI for clients in this process. The PIDs in the
    output of libvirt and QEMU are valid on the host: see :meth:`path`.
    """

    #: MOUNTS and CONFIGURATION; a subclass may replace them.
    mounts, configuration = MOUNTS, CONFIGURATION
    #: Command line options of libvirtd.
    libvirtd_options = ()

    def __init__(self, name='mix1'):
        self.name = name
        #: Environment variables of daemons and guests.
        self.environment = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            _remove_leftovers(pathlib.Path('/tmp'), functools.partial(
                shutil.rmtree, ignore_errors=True))
            # A short path: the path of a socket has at most 107 characters.
            self.directory = pathlib.Path(tempfile.mkdtemp(
                prefix='%s%d-' % (PREFIX, os.getpid()), dir='/tmp'))
            stack.callback(shutil.rmtree, self.directory)
            self.uri = 'qemu+unix:///system?socket=%s/run/libvirt/' \
                'libvirt-sock' % self.directory
            self._write_files()
            self._cgroups = _Cgroups(self.directory.name)
            stack.callback(self._cgroups.remove)
            self._cgroups.create()
            self._start_init(stack)
            self._start_daemon('virtlogd')
            self.start_libvirtd()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def _write_files(self):
        for name in self.mounts.keys() - USERS:
            (self.directory / name).mkdir(exist_ok=True)
        for name, text in USERS.items():
            (self.directory / name).write_text(
                pathlib.Path('/etc', name).read_text() + text)
        (self.directory / 'run' / 'lock').mkdir()
        for name, text in self.configuration.items():
            (self.directory / 'etc' / name).write_text(
                text % {'uuid': uuid.uuid4()})

    def _start_init(self, stack):
        script = INIT % {
            'mounts': '\n'.join(
                'mount --bind %s %s' % (self.directory / name, target)
                for name, target in self.mounts.items()),
            'cgroups': '\n'.join(self._cgroups.mount_commands())}
        # The host must end whenever the process that started it ends.
        process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL',
             'sh', '-c', self._cgroups.join_command() + 'exec "$@"', 'sh',
             'unshare', '--mount', '--uts', '--cgroup', '--pid', '--fork',
             '--kill-child', '--mount-proc', 'sh', '-c', script, 'sh',
             self.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        stack.callback(_kill, process)
        if process.stdout.readline() != 'ready\n':
            raise RuntimeError(
                'The namespaces of host %s cannot be set up. Run these tests '
                'as root, after tools/libvirt.' % self.name)
        self._init = int(pathlib.Path('/proc/%d/task/%d/children' % (
            process.pid, process.pid)).read_text())
        self._cgroups.move_processes()

    def _start_daemon(self, name, *options):
        self.run('sh', '-c', self._cgroups.join_as_daemon_command() +
                 'exec env "$@" -d', 'sh',
                 *('%s=%s' % pair for pair in self.environment.items()), name,
                 *options)

    def path(self, path):
        """Return the path in this process for a path of the host.

        Paths below /proc and /sys/fs/cgroup are allowed.
        """
        return pathlib.Path('/proc/%d/root' % self._init, path.lstrip('/'))

    def run(self, *command, check=True, timeout=TIMEOUT_SECONDS):
        """Run a command on the host and return its output, a str.

        :raises RuntimeError: if it fails
        """
        return run('nsenter', '--target', str(self._init), '--mount', '--uts',
                   '--cgroup', '--pid', *command, check=check,
                   timeout=timeout)

    def virsh(self, *arguments, check=True, timeout=TIMEOUT_SECONDS):
        """Run a command of virsh and return its output, a str.

        :raises RuntimeError: if it fails
        """
        return run('virsh', '--quiet', '--connect', self.uri, *arguments,
                   check=check, timeout=timeout)

    def prepare(self, low_weight='100', high_weight='100'):
        """Prepare the partitions, as an operator does.

        By default, low-priority guests have the same weight as all others.
        Otherwise they might not start in time on a busy machine.

        :param low_weight: str
        :param high_weight: str
        """
        self.run(sys.executable, '-m', 'nova_prio_host', 'prepare',
                 '--low-weight', low_weight, '--high-weight', high_weight)

    def start_libvirtd(self):
        """Start libvirtd and wait until it answers."""
        self._start_daemon('libvirtd', *self.libvirtd_options)
        try:
            wait_for(self._answers, 'libvirtd does not answer')
        except RuntimeError as error:
            raise RuntimeError('%s: %s' % (error, self.log)) from error

    @property
    def log(self):
        """The log of libvirtd, a str."""
        return (self.directory / 'log' / 'libvirtd.log').read_text()

    def _answers(self):
        """Return whether libvirtd answers."""
        try:
            return bool(self.virsh('uri'))
        except RuntimeError:
            return False

    def stop_libvirtd(self):
        """Stop libvirtd; the guests keep running."""
        pid = int(self.path('/run/libvirtd.pid').read_text())
        self.run('kill', str(pid))
        wait_for(lambda: not self.path('/proc/%d' % pid).exists(),
                 'libvirtd does not end.')

    def restart_libvirtd(self):
        """Restart libvirtd; the guests keep running."""
        self.stop_libvirtd()
        self.start_libvirtd()


class _Cgroups:
    """One cgroup in each hierarchy: the root of this hierarchy on a host."""

    def __init__(self, name):
        self._name = name
        #: Tuples (mount point, file system type, controllers).
        self._mounts = []
        for line in pathlib.Path('/proc/self/mounts').read_text().splitlines():
            _, target, fs_type, options, *_ = line.split()
            controllers = [option for option in options.split(',')
                           if option in CONTROLLERS]
            if fs_type == 'cgroup2' or fs_type == 'cgroup' and controllers:
                self._mounts.append(
                    (pathlib.Path(target), fs_type, ','.join(controllers)))
        if not self._mounts:
            raise RuntimeError('No cgroups are mounted.')

    @property
    def _groups(self):
        return [target / self._name for target, _, _ in self._mounts]

    def create(self):
        """Create the cgroups, with all CPUs and memory nodes."""
        for group in self._groups:
            _remove_leftovers(group.parent, _remove_groups)
            offered = group.parent / 'cgroup.controllers'
            if offered.exists():
                enabled = set(offered.read_text().split()) & {*CONTROLLERS}
                (group.parent / 'cgroup.subtree_control').write_text(
                    ' '.join('+' + name for name in enabled))
            group.mkdir()
            for name in ('cpuset.cpus', 'cpuset.mems'):
                if (group.parent / name).exists():
                    (group / name).write_text(
                        (group.parent / name).read_text())

    def join_command(self):
        """Return the shell command that joins the cgroups on this machine."""
        return ''.join('echo $$ >%s/cgroup.procs; ' % group
                       for group in self._groups)

    def join_as_daemon_command(self):
        """Return the shell command that joins the cgroups on the host."""
        return ''.join(
            'echo $$ >%s/cgroup.procs; ' % (
                target / DAEMONS if fs_type == 'cgroup2' else target)
            for target, fs_type, _ in self._mounts)

    def move_processes(self):
        """Move the processes of a v2 root to a child cgroup.

        On v2, a cgroup that enables controllers for its children must not have
        processes.
        """
        for target, fs_type, _ in self._mounts:
            if fs_type == 'cgroup2':
                group = target / self._name
                (group / DAEMONS).mkdir()
                for pid in (group / 'cgroup.procs').read_text().split():
                    (group / DAEMONS / 'cgroup.procs').write_text(pid)

    def mount_commands(self):
        """Yield the shell commands that mount the hierarchies of a host."""
        for target, fs_type, controllers in self._mounts:
            options = ' -o ' + controllers if controllers else ''
            yield 'mkdir -p %s' % target
            yield 'mount -t %s%s none %s' % (fs_type, options, target)

    def remove(self):
        """Remove the cgroups and their children.

        Killed processes may still be in the cgroups for a moment.
        """
        for group in self._groups:
            _remove_groups(group)


def run(*command, check=True, timeout=TIMEOUT_SECONDS):
    """Run a command and return its output, a str.

    :raises RuntimeError: if it fails
    """
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=timeout)
    if check and done.returncode:
        raise RuntimeError('%s: %s' % (' '.join(command), done.stdout))
    return done.stdout


def wait_for(condition, message, seconds=TIMEOUT_SECONDS):
    """Wait until a function returns a true value, and return the value.

    :raises RuntimeError: with the message, on timeout
    """
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise RuntimeError(message)
        time.sleep(0.02)


def _remove_leftovers(directory, remove):
    """Remove the leftovers of killed test processes.

    :param remove: function that removes a path
    """
    for path in directory.glob(PREFIX + '*-*'):
        pid = path.name[len(PREFIX):].split('-')[0]
        if pid.isdigit() and not os.path.exists('/proc/' + pid):
            remove(path)


def _remove_groups(group):
    """Remove a cgroup and its children as soon as they have no process."""
    for directory, _, _ in os.walk(group, topdown=False):
        wait_for(lambda: _is_removed(directory),
                 'Cgroup %s is in use.' % directory)


def _is_removed(directory):
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _kill(process):
    process.kill()
    process.wait(TIMEOUT_SECONDS)
    process.stdout.close()
