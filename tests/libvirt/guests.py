# SPDX-License-Identifier: Apache-2.0

"""Guests with the XML of the priority driver, and their kernel state."""

import collections
import json

from nova.virt import hardware

from nova_prio.virt.libvirt import guest_xml
from tests.libvirt import daemon

DOMAIN = '''\
<domain type="qemu">
  <name>%(name)s</name>
  <memory unit="MiB">32</memory>
  <vcpu%(cpuset)s>%(vcpus)d</vcpu>
  <iothreads>%(iothreads)d</iothreads>
  <cputune>
    %(pins)s
  </cputune>
  <os>
    <type arch="x86_64" machine="pc">hvm</type>
    <boot dev="hd"/>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <devices>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw"/>
      <source file="%(image)s"/>
      <target dev="vda" bus="virtio"/>
      <readonly/>
      <shareable/>
    </disk>
    <controller type="usb" model="none"/>
    <memballoon model="none"/>
  </devices>
</domain>
'''

#: A thread of a guest: its TID on the host, the CPUs that it may use
#: (frozenset), the CPU that it used last, and its CPU time in nanoseconds.
Thread = collections.namedtuple('Thread', 'tid allowed last run_ns')


def xml(name, image, cpus, priority=None, vcpus=1, iothreads=0,
        real_time=False, low_emulator=None):
    """Return the domain XML of a guest, with the settings of its priority.

    :param cpus: HostCPUs of the host, with mix
    :param priority: 'high', 'low', or None
    :param low_emulator: set of the CPUs in low_emulator_set, or None
    """
    floating = {'high': None, 'low': cpus.shared | cpus.dedicated,
                None: cpus.shared}[priority]
    pins = '\n    '.join(
        '<vcpupin vcpu="%d" cpuset="%d"/>' % pair
        for pair in enumerate(sorted(cpus.dedicated)[:vcpus])
        if priority == 'high')
    if real_time:
        pins += '<vcpusched vcpus="0" scheduler="fifo" priority="1"/>'
    return guest_xml.apply_priority(
        DOMAIN % {
            'name': name, 'image': image, 'vcpus': vcpus,
            'iothreads': iothreads, 'pins': pins,
            'cpuset': '' if floating is None else
            ' cpuset="%s"' % hardware.format_cpu_spec(floating)},
        priority,
        (low_emulator or cpus.shared) if priority == 'low' else None)


class Guest:
    """A running guest, by its name in libvirt."""

    def __init__(self, host, name):
        self.host = host
        self.name = name

    @property
    def pid(self):
        """The PID of QEMU on the host."""
        return int(self.host.path(
            '/run/libvirt/qemu/%s.pid' % self.name).read_text())

    @property
    def vcpus(self):
        """Dict, vCPU -> Thread."""
        return {cpu['cpu-index']: self._thread(cpu['thread-id'])
                for cpu in self._query('query-cpus-fast')}

    @property
    def iothreads(self):
        """Dict, id -> Thread."""
        return {thread['id']: self._thread(thread['thread-id'])
                for thread in self._query('query-iothreads')}

    @property
    def emulator(self):
        """The Thread of the main loop of QEMU, which also runs the monitor."""
        return self._thread(self.pid)

    @property
    def cgroups(self):
        """Dict, controller ('' for v2) -> path below the root of the host."""
        lines = self.host.run(
            'cat', '/proc/%d/cgroup' % self.pid).splitlines()
        found = {}
        for _, controllers, path in (line.split(':', 2) for line in lines):
            for controller in controllers.split(','):
                found[controller] = path
        return found

    @property
    def affinity(self):
        """Dict, vCPU -> frozenset of CPUs, from ``virsh vcpuinfo``."""
        found = {}
        for line in self.host.virsh('vcpuinfo', self.name).splitlines():
            key, _, value = line.partition(':')
            if key == 'VCPU':
                vcpu = int(value)
            elif key == 'CPU Affinity':
                found[vcpu] = frozenset(
                    cpu for cpu, flag in enumerate(value.strip())
                    if flag == 'y')
        return found

    def _query(self, command):
        """Return the answer of the QEMU monitor to a command."""
        return json.loads(self.host.virsh(
            'qemu-monitor-command', self.name,
            json.dumps({'execute': command})))['return']

    def _thread(self, tid):
        task = self.host.path('/proc/%d/task/%d' % (self.pid, tid))
        status = dict(line.split(':\t', 1) for line in
                      (task / 'status').read_text().splitlines())
        # The name in brackets may contain spaces. The text behind it begins
        # with the third field of proc(5).
        fields = (task / 'stat').read_text().rpartition(')')[2].split()
        return Thread(
            tid=tid,
            allowed=frozenset(hardware.parse_cpu_spec(
                status['Cpus_allowed_list'])),
            last=int(fields[39 - 3]),
            run_ns=int((task / 'schedstat').read_text().split()[0]))


def wait_until_busy(guest):
    """Wait until all vCPUs of a guest run; return dict, vCPU -> Thread."""
    def are_busy():
        return all(thread.run_ns > before[vcpu].run_ns + 50_000_000
                   for vcpu, thread in guest.vcpus.items())

    before = guest.vcpus
    daemon.wait_for(are_busy, 'A vCPU of %s does not run.' % guest.name)
    return guest.vcpus
