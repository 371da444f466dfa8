# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A host of a live cloud: a process that lives as long as its namespaces.

Run as ``python -m tests.live.host DIRECTORY NAME``. It has the CPUs of the
worked example, whatever this machine has, and a real libvirtd.
"""

import json
import pathlib
import shutil
import signal
import sys

from tests.libvirt import topology
from tests.live import layout as layouts


class Host(topology.Host):
    """A host of 12 CPUs in one NUMA cell."""

    cells = {0: tuple(range(12))}

    def enter_command(self):
        """Return the beginning of a command that runs there."""
        return ['nsenter', '--target', str(self._init), '--mount', '--uts',
                '--cgroup', '--pid']


def found(layout, name):
    """Return what a host tells of itself.

    :returns: dict: ``enter``, the beginning of a command that runs there,
        and ``uri``, that of libvirt
    """
    return json.loads((layout.run / (name + '.host')).read_text())


def main(directory, name):
    """Be the host until told to end."""
    layout = layouts.Layout.load(pathlib.Path(directory))
    signal.signal(signal.SIGTERM, lambda *args: sys.exit())
    file = layout.run / (name + '.host')
    with Host(name) as host:
        try:
            host.run(str(layouts.PROGRAMS / 'nova-prio-host'), 'prepare')
            file.write_text(json.dumps(
                {'enter': host.enter_command(), 'uri': host.uri}))
            while True:
                signal.pause()
        finally:
            file.unlink(missing_ok=True)
            shutil.copytree(host.directory / 'log', layout.log / name,
                            dirs_exist_ok=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
