# SPDX-License-Identifier: Apache-2.0

"""The trees of cgroups in which libvirt looks for the partitions.

A cgroup is a directory that the kernel shows below /sys/fs/cgroup. It contains
processes, and files whose values limit or weigh their use of the host. A
controller is the part of the kernel that does this for one resource, such as
cpu, memory or io. A hierarchy is one tree of cgroups: cgroup v2 has a single
tree for all controllers, and cgroup v1 has a tree for each controller or for a
few of them. A host may mount both versions.

A partition is the cgroup of all guests of one priority. libvirt puts guests
into the directory NAME.partition or, if it uses systemd-machined, into the
directory of the slice NAME.slice, which belongs to systemd.

Sources: libvirt's src/util/vircgroup.c, vircgroupv1.c and vircgroupv2.c for
the directories, systemd's src/core/cgroup.c for the values of weights.
"""

import os
import typing

from nova_prio_host import steps

HIGH, LOW = PARTITIONS = ('high_prio_machine', 'low_prio_machine')
#: In place of a CPU weight: the kernel treats the processes of the cgroup as
#: those of SCHED_IDLE. Linux 5.15 and later have the file cpu.idle for it.
IDLE = 'idle'

V1_CONTROLLERS = {'cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer',
                  'blkio', 'net_cls', 'perf_event'}
V2_CONTROLLERS = ('cpu', 'cpuset', 'io', 'memory')


class Weight(typing.NamedTuple):
    """A file for a weight, with the default and the range of its values.

    Cgroups that compete for a resource share it in proportion to their
    weights.
    """

    name: str
    default: int
    least: int
    most: int

    def convert(self, weight):
        """Return the text of this file for a weight whose default is 100."""
        value = weight * self.default // 100
        value = max(value, self.least)
        value = min(value, self.most)
        return str(value)


def get_priority(partition):
    """Return the priority of the guests in HIGH or LOW: 'high' or 'low'."""
    return partition.split('_')[0]


class Hierarchy:
    """A tree of cgroups in which libvirt needs a directory per partition.

    ``CPU`` is the Weight of the CPU. ``IO`` is a tuple of the Weights of I/O,
    of which the kernel may lack some. ``SYSTEMD_IDLE`` is a tuple of the texts
    that systemd may write for CPU weight idle.

    Methods take the options of nova-prio-host, an argparse.Namespace.

    :param top: pathlib.Path of the root of the tree
    :param controllers: names of the controllers, a list or set
    """

    def __init__(self, top, controllers):
        self.top = top
        self.controllers = controllers

    def plan_steps(self, options):
        """Yield the steps of the directories that libvirt uses."""
        for name in PARTITIONS:
            path = self.top / (name + '.partition')
            yield steps.make_directory_step(path)
            # The directory is missing if the step was not applied.
            if path.is_dir():
                yield from self.plan_prerequisites(path)
                yield from self.plan_settings(path, name, options)

    def plan_settings(self, path, name, options, systemd_slice=None):
        """Yield the steps of the options for one partition.

        :param path: directory of the partition
        :param name: HIGH or LOW
        :param systemd_slice: SystemdSlice to which the directory belongs; None
            if it belongs to no slice
        """
        weight = options.low_weight if name == LOW else options.high_weight
        if 'cpu' in self.controllers:
            yield from self._plan_cpu_weight(path, weight, systemd_slice)
        # The value that systemd writes for IOWeight= depends on its release.
        if name == LOW and options.io_weight and systemd_slice is None:
            yield from self._plan_io_weight(path, options.io_weight)

    def _plan_cpu_weight(self, path, weight, systemd_slice):
        """Yield the steps that set the CPU weight.

        :param weight: a number with the default 100, or IDLE
        :param systemd_slice: SystemdSlice or None, as for plan_settings
        """
        idle = path / 'cpu.idle'
        number = path / self.CPU.name
        if weight != IDLE:
            # The kernel refuses a weight as long as the cgroup is idle.
            if steps.read_file(idle) == '1':
                yield steps.make_value_step(idle, '0', systemd_slice)
            yield steps.make_value_step(
                number, self.CPU.convert(weight), systemd_slice)
        elif idle.exists() and systemd_slice is None:
            yield steps.make_value_step(idle, '1')
        elif steps.read_file(idle) != '1':
            # Kernels before 5.15, systemd before 252 and systemd on cgroup v1
            # know no idle. The lowest weight takes its place.
            accepted = () if systemd_slice is None else self.SYSTEMD_IDLE
            yield steps.make_value_step(
                number, str(self.CPU.least), systemd_slice, accepted)

    def _plan_io_weight(self, path, weight):
        """Yield the steps that set the I/O weight, a number."""
        controller = self.IO[0].name.split('.')[0]  # io or blkio
        if controller not in self.controllers:
            return
        present = [file for file in self.IO if (path / file.name).exists()]
        # If the kernel has none of the files, report the first as missing.
        for file in present or self.IO[:1]:
            yield steps.make_value_step(path / file.name, file.convert(weight))


class CgroupV1(Hierarchy):
    """A hierarchy of cgroup v1, with one controller or several."""

    CPU = Weight(name='cpu.shares', default=1024, least=2, most=262144)
    IO = (Weight(name='blkio.weight', default=500, least=10, most=1000),
          Weight(name='blkio.bfq.weight', default=100, least=1, most=1000))
    SYSTEMD_IDLE = ('10',)

    def plan_prerequisites(self, path):
        """Yield the steps without which no process may enter a directory."""
        if 'cpuset' in self.controllers:
            for name in ('cpuset.mems', 'cpuset.cpus'):
                root_value = steps.read_file(self.top / name)
                yield steps.make_value_step(path / name, root_value)


class CgroupV2(Hierarchy):
    """The hierarchy of cgroup v2, alone or beside some of v1."""

    CPU = Weight(name='cpu.weight', default=100, least=1, most=10000)
    IO = (Weight(name='io.weight', default=100, least=1, most=10000),
          Weight(name='io.bfq.weight', default=100, least=1, most=1000))
    SYSTEMD_IDLE = ()

    def plan_steps(self, options):
        """Yield the steps of the root, and of the directories below it."""
        yield from self.plan_prerequisites(self.top)
        yield from super().plan_steps(options)

    def plan_prerequisites(self, path):
        """Yield the steps that enable the controllers of child cgroups.

        libvirt enables them in a partition when its first guest starts. Then
        systemd can no longer disable a controller.
        """
        control = path / 'cgroup.subtree_control'
        offered = steps.read_file(path / 'cgroup.controllers').split()
        for controller in V2_CONTROLLERS:
            if controller in offered:
                yield steps.make_controller_step(control, controller)

    def plan_settings(self, path, name, options, systemd_slice=None):
        """Yield the steps of the options, with those of the memory.

        :param systemd_slice: SystemdSlice or None, as in the base class
        """
        yield from super().plan_settings(path, name, options, systemd_slice)
        if name == HIGH and 'memory' in self.controllers:
            page_bytes = os.sysconf('SC_PAGE_SIZE')
            for kind, size_bytes in list_memory_protections(options):
                # The kernel rounds the size down to whole pages.
                rounded_bytes = size_bytes // page_bytes * page_bytes
                yield steps.make_value_step(
                    path / ('memory.' + kind), str(rounded_bytes),
                    systemd_slice)


def list_memory_protections(options):
    """Return the sizes that the kernel does not reclaim from a partition.

    :param options: argparse.Namespace of nova-prio-host
    :returns: list of tuples ('low' or 'min', bytes) with the given options
    """
    sizes = {'low': options.memory_low, 'min': options.memory_min}
    return [(kind, size) for kind, size in sizes.items() if size is not None]


def find_hierarchies(top):
    """Yield the hierarchies that libvirt uses, cgroup v2 first.

    :param top: pathlib.Path of the directory of their mounts
    """
    for path in (top, top / 'unified'):
        # libvirt ignores cgroup v2 if it has no controllers.
        text = steps.read_file(path / 'cgroup.controllers')
        if text:
            yield CgroupV2(path, text.split())
    for path in sorted(top.glob('*')):
        controllers = V1_CONTROLLERS.intersection(path.name.split(','))
        # Links lead to a hierarchy of several controllers.
        if (controllers and not path.is_symlink() and
                (path / 'cgroup.procs').exists()):
            yield CgroupV1(path, controllers)


def select_hierarchy(host_hierarchies, controller):
    """Return the Hierarchy that has a controller, or None.

    :param host_hierarchies: list of the Hierarchies of the host
    """
    for hierarchy in host_hierarchies:
        if controller in hierarchy.controllers:
            return hierarchy
    return None
