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

"""What a machine does: the command, and a guest in each partition.

Runs in the machine, with the standard library alone. Writes what it found to
the second serial line as JSON, and switches the machine off.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve()
COMMAND = [sys.executable, '-I', '-S',
           str(HERE.parents[2] / 'nova_prio' / 'cmd' / 'host.py')]
GUEST = '''
<domain type="qemu">
  <name>%(name)s</name>
  <memory unit="MiB">16</memory>
  <vcpu>1</vcpu>
  <resource><partition>/%(name)s</partition></resource>
  <os><type arch="x86_64" machine="pc">hvm</type></os>
  <devices><controller type="usb" model="none"/></devices>
</domain>
'''
PARTITIONS = ('high_prio_machine', 'low_prio_machine')
FILES = ('cpu.idle', 'cpu.weight', 'cpu.shares', 'cpuset.cpus',
         'cpuset.cpus.effective')


def run(*command):
    """Run a command: [exit status, output lines, error lines]."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    return [done.returncode, done.stdout.splitlines(),
            done.stderr.splitlines()]


def guest(name):
    """Start a paused guest in a partition; say where it is, or why not."""
    path = pathlib.Path('/run/%s.xml' % name)
    path.write_text(GUEST % {'name': name})
    started = run('virsh', 'create', '--paused', str(path))
    if started[0]:
        return {'error': started[2]}
    pid = pathlib.Path('/run/libvirt/qemu/%s.pid' % name).read_text()
    groups = pathlib.Path('/proc/%s/cgroup' % pid.strip()).read_text()
    run('virsh', 'destroy', name)
    return {'cgroups': groups.splitlines()}


def weights():
    """Return dict, file of a partition's cgroup -> text."""
    top = pathlib.Path('/sys/fs/cgroup')
    return {str(group.relative_to(top) / name): (group / name).read_text()
            for pattern in ('*_prio_machine.*', '*/*_prio_machine.*')
            for group in sorted(top.glob(pattern)) if group.is_dir()
            for name in FILES if (group / name).exists()}


def look():
    """Return what is found: a dict."""
    found = {'check before': run(*COMMAND, 'check', '--json'),
             'prepare': run(*COMMAND, 'prepare'),
             'check': run(*COMMAND, 'check', '--json'),
             'prepare again': run(*COMMAND, 'prepare'),
             'weights': weights()}
    subprocess.run(['libvirtd', '-d'], check=True)
    while run('virsh', 'version')[0]:
        time.sleep(0.2)
    for name in PARTITIONS:
        found[name] = guest(name)
    found['check after guests'] = run(*COMMAND, 'check', '--json')
    found['weights after guests'] = weights()
    if pathlib.Path('/run/systemd/system').exists():
        found['unit'] = boot()
    return found


def boot():
    """Run the unit for the boot as the guide installs it."""
    installed = pathlib.Path('/usr/local/bin/nova-prio-host')
    installed.write_text('#!/bin/sh\nexec %s "$@"\n' % ' '.join(COMMAND))
    installed.chmod(0o755)
    for unit in HERE.parents[2].glob('etc/systemd/*'):
        shutil.copy(unit, '/etc/systemd/system')
    run('systemctl', 'daemon-reload')
    started = run('systemctl', 'start', 'nova-prio-host.service')
    return [*started, run('systemctl', 'is-active', 'nova-prio-host.service',
                          *('%s.slice' % name for name in PARTITIONS)),
            run(*COMMAND, 'check', '--json')]


def main():
    """Look, tell, and switch off."""
    try:
        found = look()
    except Exception:
        found = {'failed': traceback.format_exc()}
    with open('/dev/ttyS1', 'w') as line:
        line.write(json.dumps(found))
    os.sync()
    pathlib.Path('/proc/sysrq-trigger').write_text('o')
    time.sleep(60)


if __name__ == '__main__':
    main()
