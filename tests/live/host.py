# SPDX-License-Identifier: Apache-2.0

"""A host of a live cloud: a process with namespaces and a libvirtd.

Usage: ``python -m tests.live.host DIRECTORY NAME NOVA``. NOVA is the virtual
environment of nova-prio-host. On any machine, libvirt on this host shows the
CPUs of the worked example.
"""

import itertools
import json
import pathlib
import shutil
import signal
import sys

from tests.libvirt import topology
from tests.live import layout as layouts


#: Tells a host to restart its libvirtd.
RESTART_LIBVIRTD = signal.SIGUSR1
#: Size of the tmpfs for the instances of a host. Nova counts it as 1 GB.
DISK_SIZE = '1200m'

LISTEN = '''\
listen_tls = 0
listen_tcp = 1
listen_addr = "%s"
auth_tcp = "none"
'''


class Host(topology.Host):
    """A host of 12 CPUs in one NUMA cell that accepts migrations."""

    cells = {0: tuple(range(12))}
    libvirtd_options = ('--listen',)

    def __init__(self, layout, name):
        super().__init__(name)
        self._address = layout.address(name)
        self.mounts = {
            **topology.Host.mounts, str(layout.etc / 'ssh'): '/etc/ssh',
            str(layout.state / name): str(layout.compute_state)}
        self.configuration = {
            **topology.Host.configuration, 'libvirtd.conf':
                topology.Host.configuration['libvirtd.conf'] +
                LISTEN % self._address}

    def _write_files(self):
        super()._write_files()
        (self.directory / 'run' / 'sshd').mkdir()

    def start_ssh(self):
        """Start the SSH server."""
        self.run('/usr/sbin/sshd', '-o', 'ListenAddress=' + self._address)

    def enter_command(self):
        """Return the beginning of a command that runs on this host."""
        return ['nsenter', '--target', str(self._init), '--mount', '--uts',
                '--cgroup', '--pid']


def read_record(layout, name):
    """Return the record that the process of a host writes.

    :returns: dict: ``enter``, the beginning of a command that runs on this
        host, ``uri``, the URI of libvirt, and ``restarts``, the number of
        restarts of libvirtd
    """
    return json.loads((layout.run / (name + '.host')).read_text())


def main(directory, name, nova):
    """Run the host until SIGTERM arrives."""
    layout = layouts.Layout.load(pathlib.Path(directory))
    signal.signal(signal.SIGTERM, lambda *args: sys.exit())
    file = layout.run / (name + '.host')
    restarts = itertools.count()

    def write_record(number):
        # Replace the file in one step: another process may read it now.
        new = file.with_suffix('.new')
        new.write_text(json.dumps(
            {'enter': host.enter_command(), 'uri': host.uri,
             'restarts': number}))
        new.replace(file)

    def restart(*args):
        host.restart_libvirtd()
        write_record(next(restarts))

    with Host(layout, name) as host:
        try:
            host.run('mount', '-t', 'tmpfs', '-o', 'size=' + DISK_SIZE, 'none',
                     str(layout.compute_state / 'instances'))
            host.start_ssh()
            # Run the installed package, not the checkout.
            host.run('env', '--unset', 'PYTHONPATH',
                     '%s/bin/nova-prio-host' % nova, 'prepare')
            write_record(next(restarts))
            signal.signal(RESTART_LIBVIRTD, restart)
            while True:
                signal.pause()
        finally:
            file.unlink(missing_ok=True)
            shutil.copytree(host.directory / 'log', layout.log / name,
                            dirs_exist_ok=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
