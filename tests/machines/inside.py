# SPDX-License-Identifier: Apache-2.0

"""Run the command and start a guest in each partition, inside a machine.

This script needs only the standard library. It writes its results to the
second serial line as JSON, and switches the machine off.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve()
# first.sh writes this file.
COMMAND = [sys.executable, '-I', '-S', '/usr/local/lib/nova-prio-host']
GUEST = '''
<domain type="qemu">
  <name>%(name)s</name>
  <memory unit="MiB">16</memory>
  <vcpu>1</vcpu>
  <cputune>%(tuning)s</cputune>
  <resource><partition>/%(name)s</partition></resource>
  <os><type arch="x86_64" machine="pc">hvm</type></os>
  <devices><controller type="usb" model="none"/></devices>
</domain>
'''
UNIT = 'nova-prio-host.service'
METRICS = 'nova-prio-host-metrics'
METRICS_FILE = '/var/lib/prometheus/node-exporter/nova_prio_host.prom'
PARTITIONS = ('high_prio_machine', 'low_prio_machine')
REAL_TIME = '<vcpusched vcpus="0" scheduler="fifo" priority="1"/>'
FILES = ('cpu.idle', 'cpu.weight', 'cpu.shares', 'cpuset.cpus',
         'cpuset.cpus.effective')


def run(*command):
    """Run a command; return [exit status, output lines, error lines]."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    return [done.returncode, done.stdout.splitlines(),
            done.stderr.splitlines()]


def start_guest(name, tuning=''):
    """Start a paused guest in a partition; return its cgroups or errors.

    :param name: name of the partition and of the guest
    :param tuning: elements of cputune in the domain XML
    """
    path = pathlib.Path('/run/%s.xml' % name)
    path.write_text(GUEST % {'name': name, 'tuning': tuning})
    started = run('virsh', 'create', '--paused', str(path))
    if started[0]:
        return {'error': started[2]}
    pid = pathlib.Path('/run/libvirt/qemu/%s.pid' % name).read_text()
    process = pathlib.Path('/proc', pid.strip())
    found = {'cgroups': (process / 'cgroup').read_text().splitlines(),
             'metrics': run(*COMMAND, 'metrics'),
             'real-time threads': sum(
                 os.sched_getscheduler(int(thread.name)) == os.SCHED_FIFO
                 for thread in (process / 'task').iterdir())}
    run('virsh', 'destroy', name)
    return found


def read_weights():
    """Return dict, file in the cgroup of a partition -> text."""
    top = pathlib.Path('/sys/fs/cgroup')
    return {str(group.relative_to(top) / name): (group / name).read_text()
            for pattern in ('*_prio_machine.*', '*/*_prio_machine.*')
            for group in sorted(top.glob(pattern)) if group.is_dir()
            for name in FILES if (group / name).exists()}


def collect():
    """Return the results, a dict."""
    if pathlib.Path('/run/systemd/system').exists():
        found = read_boot()
    else:
        found = {'check before': run(*COMMAND, 'check', '--json'),
                 'prepare': run(*COMMAND, 'prepare')}
        subprocess.run(['libvirtd', '-d'], check=True)
    found |= {'check': run(*COMMAND, 'check', '--json'),
              'prepare again': run(*COMMAND, 'prepare'),
              'weights': read_weights()}
    while run('virsh', 'version')[0]:
        time.sleep(0.2)
    for name, tuning in zip(PARTITIONS, (REAL_TIME, '')):
        found[name] = start_guest(name, tuning)
    if 'active' in found:
        found['metrics unit'] = start_metrics()
    found['check after guests'] = run(*COMMAND, 'check', '--json')
    found['weights after guests'] = read_weights()
    return found


def read_boot():
    """Return the results and the times (in microseconds) of the boot."""
    before, output, errors = (
        pathlib.Path('/run', name).read_text().splitlines()
        for name in ('before', 'prepared', 'errors'))
    return {'check before': [int(before[0])],
            'prepare': [read_number(UNIT, 'ExecMainStatus'), output, errors],
            'prepared': read_number(UNIT, 'ActiveEnterTimestampMonotonic'),
            'libvirtd starts': read_number(
                'libvirtd.service', 'InactiveExitTimestampMonotonic'),
            'active': run('systemctl', 'is-active', UNIT, 'libvirtd.service',
                          *('%s.slice' % name for name in PARTITIONS))}


def start_metrics():
    """Start the units of the metrics; return their results.

    The timer would start the service at the next full minute.
    """
    found = {'timer': run('systemctl', 'start', METRICS + '.timer'),
             'next': run('systemctl', 'list-timers', '--no-legend',
                         METRICS + '.timer'),
             'service': run('systemctl', 'start', METRICS + '.service')}
    found['lines'] = pathlib.Path(METRICS_FILE).read_text().splitlines()
    return found


def read_number(unit, name):
    """Return a numeric property of a systemd unit."""
    return int(run('systemctl', 'show', '--value', '--property=' + name,
                   unit)[1][0])


def main():
    """Write the results, and switch the machine off."""
    try:
        found = collect()
    except Exception:
        found = {'failed': traceback.format_exc()}
    with open('/dev/ttyS1', 'w') as line:
        line.write(json.dumps(found))
    os.sync()
    pathlib.Path('/proc/sysrq-trigger').write_text('o')
    time.sleep(60)


if __name__ == '__main__':
    main()
