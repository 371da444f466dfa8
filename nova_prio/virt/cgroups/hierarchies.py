# SPDX-License-Identifier: Apache-2.0

"""The trees of cgroups in which libvirt looks for the partitions.

What libvirt looks for is read from its src/util/vircgroup.c, vircgroupv1.c
and vircgroupv2.c, and how systemd turns weights into values from its
src/core/cgroup.c.
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

    ``wrong`` says which value was found and which one is expected, or is None
    if the setting is right. ``mend`` is a function that sets it, or None if
    this command cannot. ``done`` is the line to print after that.
    """

    # The one file runs on the Python of older distributions too.
    wrong: typing.Optional[str]
    remedy: str = PREPARE
    mend: typing.Optional[typing.Callable] = None
    done: str = ''


class Weight(typing.NamedTuple):
    """A file that holds a weight, whose unit is the kernel's for the file."""

    name: str
    default: int
    least: int
    most: int

    def text(self, weight):
        """Return what stands in the file for a weight of cgroup v2."""
        return str(min(max(weight * self.default // 100, self.least),
                       self.most))


def read_file(path):
    """Return the text of a file without the white space around it, or None."""
    return path.read_text().strip() if path.exists() else None


def make_directory_step(path, mend=None, done=None):
    """Return the step that the directory of a cgroup exists."""
    return Step(None if path.is_dir() else
                '%s is missing, which guests of this priority need' % path,
                mend=mend or (lambda: path.mkdir(exist_ok=True)),
                done=done or 'made %s' % path)


def make_value_step(path, wanted, mend=None, accepted=(), remedy=PREPARE):
    """Return the step that a file of a cgroup holds a value.

    :param mend: what makes it so; None to write the value to the file
    :param accepted: further values that are as good
    """
    found = read_file(path)
    if found is None:
        return Step('%s is missing, where %s is expected' % (path, wanted),
                    'use a kernel that has it, or leave out the option that '
                    'asks for it')
    # Some begin with the word "default", and go on with devices.
    text = found.split('\n')[0].split('default ')[-1]
    return Step(None if text in (wanted, *accepted) else
                '%s is %s, where %s is expected' % (path, text or 'empty',
                                                    wanted),
                remedy, mend or (lambda: path.write_text(wanted)),
                'set %s to %s' % (path, wanted) if mend is None else
                'had systemd set %s to %s' % (path, wanted))


class Hierarchy:
    """A tree of cgroups in which libvirt wants a directory per partition.

    CPU and IO are files with weights; SYSTEMD_IDLE is what systemd may write
    to the former for a weight of idle.
    """

    def __init__(self, top, controllers):
        self.top = top
        self.controllers = controllers

    def steps(self, options):
        """Yield the steps of the directories that libvirt itself looks for."""
        for name in PARTITIONS:
            path = self.top / (name + '.partition')
            yield make_directory_step(path)
            if path.is_dir():
                yield from self.foundation(path)
                yield from self.settings(path, name, options)

    def settings(self, path, name, options, **systemd):
        """Yield the steps of what the options say about one partition.

        :param systemd: mend and remedy of value(), where the directory is
            systemd's
        """
        weight = options.low_weight if name == LOW else options.high_weight
        if 'cpu' in self.controllers:
            yield from self.cpu(path, weight, systemd)
        # What systemd makes of IOWeight= differs with its release.
        if (name == LOW and options.io_weight and not systemd and
                self.IO[0].name.split('.')[0] in self.controllers):
            found = [file for file in self.IO if (path / file.name).exists()]
            for file in found or self.IO[:1]:
                yield make_value_step(path / file.name, file.text(options.io_weight))

    def cpu(self, path, weight, systemd):
        """Yield the steps that set the CPU weight, a number or idle."""
        idle = path / 'cpu.idle'
        number = path / self.CPU.name
        if weight != IDLE:
            if read_file(idle) == '1':
                yield make_value_step(idle, '0', **systemd)
            yield make_value_step(number, self.CPU.text(weight), **systemd)
        elif idle.exists() and not systemd:
            yield make_value_step(idle, '1')
        elif read_file(idle) != '1':
            # Kernels before 5.15, systemd before 252, systemd on cgroup v1.
            yield make_value_step(number, str(self.CPU.least), **systemd,
                                  accepted=self.SYSTEMD_IDLE if systemd else ())


class CgroupV1(Hierarchy):
    """A hierarchy of cgroup v1, with one controller or several."""

    CPU = Weight('cpu.shares', 1024, 2, 262144)
    IO = (Weight('blkio.weight', 500, 10, 1000),
          Weight('blkio.bfq.weight', 100, 1, 1000))
    SYSTEMD_IDLE = ('10',)

    def foundation(self, path):
        """Yield the steps without which no process can enter a directory."""
        if 'cpuset' in self.controllers:
            for name in ('cpuset.mems', 'cpuset.cpus'):
                yield make_value_step(path / name, read_file(self.top / name))


class CgroupV2(Hierarchy):
    """The hierarchy of cgroup v2, alone or beside some of v1."""

    CPU = Weight('cpu.weight', 100, 1, 10000)
    IO = (Weight('io.weight', 100, 1, 10000),
          Weight('io.bfq.weight', 100, 1, 1000))
    SYSTEMD_IDLE = ()

    def steps(self, options):
        yield from self.foundation(self.top)
        yield from super().steps(options)

    def foundation(self, path):
        """Yield the steps that controllers reach what is in a directory.

        libvirt does so in a partition for its first guest; from then on
        systemd cannot take a controller away.
        """
        control = path / 'cgroup.subtree_control'
        offered = read_file(path / 'cgroup.controllers').split()
        for controller in V2_CONTROLLERS:
            if controller in offered:
                yield Step(None if controller in read_file(control).split() else
                           '%s is without %s' % (control, controller),
                           mend=lambda: control.write_text('+' + controller),
                           done='enabled %s in %s' % (controller, control))

    def settings(self, path, name, options, **systemd):
        yield from super().settings(path, name, options, **systemd)
        if name == HIGH and 'memory' in self.controllers:
            page = os.sysconf('SC_PAGE_SIZE')
            for kind, size in list_memory_protections(options):
                yield make_value_step(path / ('memory.' + kind),
                                      str(size // page * page), **systemd)


def list_memory_protections(options):
    """Return (kind, bytes) of each protection of memory that is asked for."""
    sizes = {'low': options.memory_low, 'min': options.memory_min}
    return [(kind, size) for kind, size in sizes.items() if size is not None]


def find_hierarchies(top):
    """Yield the hierarchies that libvirt uses, those of cgroup v2 first.

    :param top: pathlib.Path of the directory in which they are mounted
    """
    for path in (top, top / 'unified'):
        # To libvirt, cgroup v2 without controllers is not there.
        controllers = (read_file(path / 'cgroup.controllers') or '').split()
        if controllers:
            yield CgroupV2(path, controllers)
    for path in sorted(top.glob('*')):
        controllers = V1_CONTROLLERS.intersection(path.name.split(','))
        # Links lead to a hierarchy of several controllers.
        if (controllers and not path.is_symlink() and
                (path / 'cgroup.procs').exists()):
            yield CgroupV1(path, controllers)
