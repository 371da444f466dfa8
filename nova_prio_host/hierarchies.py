# SPDX-License-Identifier: Apache-2.0

"""The trees of cgroups in which libvirt looks for the partitions.

A partition is the cgroup of all guests of one priority. Sources: libvirt's
src/util/vircgroup.c, vircgroupv1.c and vircgroupv2.c for the directories,
systemd's src/core/cgroup.c for the values of weights.
"""

import os
import typing

HIGH, LOW = PARTITIONS = ('high_prio_machine', 'low_prio_machine')
IDLE = 'idle'

V1_CONTROLLERS = {'cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer',
                  'blkio', 'net_cls', 'perf_event'}
V2_CONTROLLERS = ('cpu', 'cpuset', 'io', 'memory')
# {command} is nova-prio-host with the options of this call.
PREPARE = 'run "{command}" as root'


class Step(typing.NamedTuple):
    """One setting that the host must have.

    ``problem`` names the current and the expected value; None if they match.
    ``remedy`` tells the user what to do. ``apply`` makes the setting; None if
    this command cannot. ``message`` is the line to print after ``apply``.
    """

    # The zip archive must run on Python 3.8.
    problem: typing.Optional[str]
    remedy: str = PREPARE
    apply: typing.Optional[typing.Callable] = None
    message: str = ''


class Weight(typing.NamedTuple):
    """A file for a weight, with the default and the range of its values."""

    name: str
    default: int
    least: int
    most: int

    def convert(self, weight):
        """Return the text of this file for a weight whose default is 100."""
        return str(min(max(weight * self.default // 100, self.least),
                       self.most))


def read_file(path):
    """Return the stripped text of a file, or None if it does not exist."""
    return path.read_text().strip() if path.exists() else None


def make_directory_step(path, apply=None, message=None):
    """Return the Step that makes a directory; ``apply`` replaces mkdir."""
    return Step(None if path.is_dir() else
                '%s is missing, but guests of this priority need it' % path,
                apply=apply or (lambda: path.mkdir(exist_ok=True)),
                message=message or 'made %s' % path)


def make_value_step(path, expected, apply=None, accepted=(), remedy=PREPARE):
    """Return the Step that sets the value of a file of a cgroup.

    :param expected: text of the value
    :param apply: function that has systemd set the value, None to write it
    :param accepted: other values that are no problem
    """
    text = read_file(path)
    if text is None:
        return Step('%s is missing, but %s is expected' % (path, expected),
                    'use a kernel that has it, or leave out the option that '
                    'asks for it')
    # The text may begin with "default", and one line per device may follow.
    value = text.split('\n')[0].split('default ')[-1]
    return Step(None if value in (expected, *accepted) else
                '%s is %s, but %s is expected' % (path, value or 'empty',
                                                  expected),
                remedy, apply or (lambda: path.write_text(expected)),
                '%s %s to %s' % ('had systemd set' if apply else 'set',
                                 path, expected))


class Hierarchy:
    """A tree of cgroups in which libvirt needs a directory per partition.

    ``CPU`` is the Weight of the CPU, ``IO`` the Weights of I/O.
    ``SYSTEMD_IDLE`` has the values that systemd may write for CPU weight idle.

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
            yield make_directory_step(path)
            if path.is_dir():
                yield from self.plan_prerequisites(path)
                yield from self.plan_settings(path, name, options)

    def plan_settings(self, path, name, options, **systemd):
        """Yield the steps of the options for one partition.

        :param path: directory of the partition
        :param name: HIGH or LOW
        :param systemd: ``apply`` and ``remedy`` of make_value_step, if the
            directory belongs to systemd
        """
        weight = options.low_weight if name == LOW else options.high_weight
        if 'cpu' in self.controllers:
            yield from self._plan_cpu_weight(path, weight, systemd)
        io_controller = self.IO[0].name.split('.')[0]  # io or blkio
        # The value that systemd writes for IOWeight= depends on its release.
        if (name == LOW and options.io_weight and not systemd and
                io_controller in self.controllers):
            present = [file for file in self.IO
                       if (path / file.name).exists()]
            for file in present or self.IO[:1]:
                yield make_value_step(path / file.name,
                                      file.convert(options.io_weight))

    def _plan_cpu_weight(self, path, weight, systemd):
        """Yield the steps that set the CPU weight, a number or IDLE."""
        idle = path / 'cpu.idle'
        number = path / self.CPU.name
        if weight != IDLE:
            if read_file(idle) == '1':
                yield make_value_step(idle, '0', **systemd)
            yield make_value_step(number, self.CPU.convert(weight), **systemd)
        elif idle.exists() and not systemd:
            yield make_value_step(idle, '1')
        elif read_file(idle) != '1':
            # Kernels before 5.15, systemd before 252, systemd on cgroup v1.
            yield make_value_step(
                number, str(self.CPU.least), **systemd,
                accepted=self.SYSTEMD_IDLE if systemd else ())


class CgroupV1(Hierarchy):
    """A hierarchy of cgroup v1, with one controller or several."""

    CPU = Weight('cpu.shares', 1024, 2, 262144)
    IO = (Weight('blkio.weight', 500, 10, 1000),
          Weight('blkio.bfq.weight', 100, 1, 1000))
    SYSTEMD_IDLE = ('10',)

    def plan_prerequisites(self, path):
        """Yield the steps without which no process may enter a directory."""
        if 'cpuset' in self.controllers:
            for name in ('cpuset.mems', 'cpuset.cpus'):
                yield make_value_step(path / name, read_file(self.top / name))


class CgroupV2(Hierarchy):
    """The hierarchy of cgroup v2, alone or beside some of v1."""

    CPU = Weight('cpu.weight', 100, 1, 10000)
    IO = (Weight('io.weight', 100, 1, 10000),
          Weight('io.bfq.weight', 100, 1, 1000))
    SYSTEMD_IDLE = ()

    def plan_steps(self, options):
        yield from self.plan_prerequisites(self.top)
        yield from super().plan_steps(options)

    def plan_prerequisites(self, path):
        """Yield the steps that enable the controllers of child cgroups.

        libvirt enables them in a partition when its first guest starts. Then
        systemd can no longer disable a controller.
        """
        control = path / 'cgroup.subtree_control'
        offered = read_file(path / 'cgroup.controllers').split()
        for controller in V2_CONTROLLERS:
            if controller in offered:
                # The lambda runs, if at all, before the next controller.
                yield Step(
                    None if controller in read_file(control).split() else
                    '%s is without %s' % (control, controller),
                    apply=lambda: control.write_text('+' + controller),
                    message='enabled %s in %s' % (controller, control))

    def plan_settings(self, path, name, options, **systemd):
        yield from super().plan_settings(path, name, options, **systemd)
        if name == HIGH and 'memory' in self.controllers:
            page = os.sysconf('SC_PAGE_SIZE')
            for kind, size in list_memory_protections(options):
                # The kernel rounds the size down to whole pages.
                yield make_value_step(path / ('memory.' + kind),
                                      str(size // page * page), **systemd)


def list_memory_protections(options):
    """Return ('low' or 'min', bytes) of each memory protection, a list."""
    sizes = {'low': options.memory_low, 'min': options.memory_min}
    return [(kind, size) for kind, size in sizes.items() if size is not None]


def find_hierarchies(top):
    """Yield the hierarchies that libvirt uses, cgroup v2 first.

    :param top: pathlib.Path of the directory of their mounts
    """
    for path in (top, top / 'unified'):
        # libvirt ignores cgroup v2 if it has no controllers.
        controllers = (read_file(path / 'cgroup.controllers') or '').split()
        if controllers:
            yield CgroupV2(path, controllers)
    for path in sorted(top.glob('*')):
        controllers = V1_CONTROLLERS.intersection(path.name.split(','))
        # Links lead to a hierarchy of several controllers.
        if (controllers and not path.is_symlink() and
                (path / 'cgroup.procs').exists()):
            yield CgroupV1(path, controllers)
