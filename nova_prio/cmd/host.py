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

"""Make or check the cgroups of a host for guests of high and low priority.

Needs nothing but Python's standard library, so that this one file can be
copied to a host and run there. What libvirt looks for is read from its
src/util/vircgroup.c, vircgroupv1.c and vircgroupv2.c, and how systemd turns
weights into values from its src/core/cgroup.c.
"""

import argparse
import errno
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import typing

HIGH, LOW = PARTITIONS = ('high_prio_machine', 'low_prio_machine')
IDLE = 'idle'
# In units of cgroup v2. The kernel's default is 100, so high-priority guests
# weigh no more than the host's own services.
HIGH_WEIGHT = 100
LOW_WEIGHT = IDLE

V1_CONTROLLERS = {'cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer',
                  'blkio', 'net_cls', 'perf_event'}
V2_CONTROLLERS = ('cpu', 'cpuset', 'io', 'memory')
UNIT_DIRECTORIES = ('etc/systemd/system', 'run/systemd/system',
                    'usr/local/lib/systemd/system', 'usr/lib/systemd/system',
                    'lib/systemd/system')
CONFIGURATION = 'etc/nova-prio-host.conf'
# {command} is this one, as it was called, to prepare.
PREPARE = 'run "{command}" as root'
SETTLE_SECONDS = 3
SUFFIXES = {'': 1, 'K': 2 ** 10, 'M': 2 ** 20, 'G': 2 ** 30, 'T': 2 ** 40}

UNIT = """\
# nova-prio-host writes this file anew where it is not what its options say:
# settings of your own belong in /%s or in a drop-in.
[Unit]
Description=Guests of %s CPU priority
Documentation=man:systemd.resource-control(5)
Before=slices.target

[Slice]
# Beside cgroup v1, systemd removes empty directories that are not its own,
# in the hierarchies that none of its units uses.
IOAccounting=yes
MemoryAccounting=yes
%s
"""


class Step(typing.NamedTuple):
    """One thing that has to be so on the host, as it was found.

    wrong is None where it is so, else what was found against what is
    expected. mend() puts it right, and is None where this command cannot;
    done says that it did.
    """

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


def read(path):
    """Return the text of a file without the white space around it, or None."""
    return path.read_text().strip() if path.exists() else None


def directory(path, mend=None, done=None):
    """Return the step that the directory of a cgroup exists."""
    return Step(None if path.is_dir() else
                '%s is missing, which guests of this priority need' % path,
                mend=mend or (lambda: path.mkdir(exist_ok=True)),
                done=done or 'made %s' % path)


def value(path, wanted, mend=None, accepted=(), remedy=PREPARE):
    """Return the step that a file of a cgroup holds a value.

    :param mend: what makes it so; None to write the value to the file
    :param accepted: further values that are as good
    """
    found = read(path)
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
            yield directory(path)
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
                yield value(path / file.name, file.text(options.io_weight))

    def cpu(self, path, weight, systemd):
        """Yield the steps that set the CPU weight, a number or idle."""
        idle = path / 'cpu.idle'
        number = path / self.CPU.name
        if weight != IDLE:
            if read(idle) == '1':
                yield value(idle, '0', **systemd)
            yield value(number, self.CPU.text(weight), **systemd)
        elif idle.exists() and not systemd:
            yield value(idle, '1')
        elif read(idle) != '1':
            # Kernels before 5.15, systemd before 252, systemd on cgroup v1.
            yield value(number, str(self.CPU.least), **systemd,
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
                yield value(path / name, read(self.top / name))


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
        offered = read(path / 'cgroup.controllers').split()
        for controller in V2_CONTROLLERS:
            if controller in offered:
                yield Step(None if controller in read(control).split() else
                           '%s is without %s' % (control, controller),
                           mend=lambda: control.write_text('+' + controller),
                           done='enabled %s in %s' % (controller, control))

    def settings(self, path, name, options, **systemd):
        yield from super().settings(path, name, options, **systemd)
        if name == HIGH and 'memory' in self.controllers:
            page = os.sysconf('SC_PAGE_SIZE')
            for kind, size in memory(options):
                yield value(path / ('memory.' + kind),
                            str(size // page * page), **systemd)


class Systemd:
    """The slices in which machined puts guests, where libvirt uses it."""

    def __init__(self, root, hierarchies, running):
        self.places = [root / place for place in UNIT_DIRECTORIES]
        self.hierarchies = hierarchies
        self.running = running

    def steps(self, options):
        """Yield the steps of the units, and of the slices where they run."""
        for name in PARTITIONS:
            unit = name + '.slice'
            yield self.unit_file(unit, self.text(name, options))
            for hierarchy in self.hierarchies if self.running else ():
                yield from self.values(unit, name, hierarchy, options)

    def values(self, unit, name, hierarchy, options):
        """Yield the steps of one slice in one hierarchy."""
        path = hierarchy.top / unit
        if 'cpu' in hierarchy.controllers:
            yield directory(path, lambda: self.call('start', unit),
                            'started %s' % unit)
        if path.is_dir():
            yield from hierarchy.settings(
                path, name, options, mend=lambda: self.call('daemon-reload'),
                remedy=PREPARE + ', and where that does not help look for '
                'drop-ins with "systemctl cat %s"' % unit)

    def text(self, name, options):
        """Return the text of a unit."""
        if name == HIGH:
            lines = ['CPUWeight=%d' % options.high_weight]
            lines += ['Memory%s=%d' % (kind.title(), size)
                      for kind, size in memory(options)]
        elif options.low_weight != IDLE:
            lines = ['CPUWeight=%d' % options.low_weight]
        elif self.has_idle():
            lines = ['# systemd before 252 knows no idle, and keeps the 1.',
                     'CPUWeight=1', 'CPUWeight=idle']
        else:
            lines = ['CPUWeight=1']
        if name == LOW and options.io_weight:
            lines.append('IOWeight=%d' % options.io_weight)
        return UNIT % (CONFIGURATION, name.split('_')[0], '\n'.join(lines))

    def has_idle(self):
        """Return False where the kernel has no idle, and v2 has the CPUs.

        systemd then sets no weight at all; on cgroup v1 it sets the least.
        """
        paths = [hierarchy.top / (LOW + '.partition')
                 for hierarchy in self.hierarchies]
        return not any((path / 'cpu.weight').exists() and
                       not (path / 'cpu.idle').exists() for path in paths)

    def unit_file(self, unit, text):
        """Return the step that systemd reads this text for a unit."""
        ours = self.places[0] / unit

        def mend():
            new = ours.with_name('.%s.new' % unit)
            ours.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text)
            new.replace(ours)
            if self.running:
                self.call('daemon-reload')

        found = [place / unit for place in self.places
                 if (place / unit).exists()]
        wrong = (None if found and found[0].read_text() == text else
                 '%s is not what the options say' % found[0] if found else
                 '%s is missing' % ours)
        return Step(wrong, mend=mend, done='wrote %s' % ours)

    def call(self, *arguments):
        subprocess.run(('systemctl', *arguments), check=True, timeout=60,
                       capture_output=True, text=True)


class Host:
    """What has to be on one host, by all the ways in which libvirt works."""

    def __init__(self, options):
        self.options = options
        root = options.root
        self.cgroups = root / 'sys/fs/cgroup'
        self.has_systemd = (root / 'run/systemd/system').is_dir()
        self.ways = list(self.hierarchies())
        # The file system of a host that does not run.
        self.is_image = (root != pathlib.Path('/') and not self.ways and
                         (root / 'etc/systemd/system').is_dir())
        # Whether libvirt reaches machined shows only when it starts a guest:
        # hosts with systemd have the directories as well. Those of v1 stay
        # only once the slices are there.
        if self.has_systemd or self.is_image:
            slices = Systemd(root, list(self.ways), self.has_systemd)
            self.ways.insert(sum(isinstance(way, CgroupV2)
                                 for way in self.ways), slices)

    def hierarchies(self):
        for top in (self.cgroups, self.cgroups / 'unified'):
            # To libvirt, cgroup v2 without controllers is not there.
            controllers = (read(top / 'cgroup.controllers') or '').split()
            if controllers:
                yield CgroupV2(top, controllers)
        for top in sorted(self.cgroups.glob('*')):
            controllers = V1_CONTROLLERS.intersection(top.name.split(','))
            # Links lead to a hierarchy of several controllers.
            if (controllers and not top.is_symlink() and
                    (top / 'cgroup.procs').exists()):
                yield CgroupV1(top, controllers)

    def steps(self):
        """Yield each step once the one before it was put right."""
        if not self.is_image:
            yield from self.needs()
        for way in self.ways:
            yield from way.steps(self.options)

    def needs(self):
        """Yield a step for each need that nothing on this host can meet."""
        ways = [way for way in self.ways if isinstance(way, Hierarchy)]
        if not any('cpu' in way.controllers for way in ways):
            yield Step('%s has no hierarchy with the controller cpu'
                       % self.cgroups, 'mount the cgroups of the host there')
        if memory(self.options) and not any(
                isinstance(way, CgroupV2) and 'memory' in way.controllers
                for way in ways):
            yield Step('%s has no cgroup v2 with the controller memory'
                       % self.cgroups, 'boot the host with cgroup v2, or '
                       'leave out --memory-low and --memory-min')


def check(host):
    """Return what is wrong, one sentence for each thing."""
    return ['%s: %s.' % (step.wrong, step.remedy.replace(
        '{command}', host.options.to_prepare))
            for step in host.steps() if step.wrong]


def prepare(host):
    """Put right what is wrong; return what still is, as check() does."""
    failed = []
    for step in host.steps():
        try:
            if step.wrong and step.mend:
                step.mend()
                print(step.done)
        except subprocess.SubprocessError as error:
            reason = ' '.join((error.stderr or '').split())
            failed.append('%s: %s %s' % (step.wrong, error, reason))
        except OSError as error:
            failed.append('%s: %s.' % (step.wrong, error.strerror))
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return [failed[-1] + ' Run this as root, on the host itself.']
    # systemd applies what it has read a moment after it answers.
    deadline = time.monotonic() + (SETTLE_SECONDS if host.has_systemd else 0)
    wrong = failed or check(host)
    while wrong and not failed and time.monotonic() < deadline:
        time.sleep(0.1)
        wrong = check(host)
    return wrong


def weight(text, otherwise=''):
    """Return a weight of cgroup v2 from its text."""
    if not re.fullmatch('[0-9]{1,5}', text) or not 1 <= int(text) <= 10000:
        raise argparse.ArgumentTypeError(
            '%r is not a whole number from 1 to 10000%s' % (text, otherwise))
    return int(text)


def low_weight(text):
    """Return a weight of cgroup v2, or idle, from its text."""
    return text if text == IDLE else weight(text, ', nor idle')


def memory_size(text):
    """Return a number of bytes from its text."""
    match = re.fullmatch('([0-9]+)([KMGT]?)', text)
    if not match:
        raise argparse.ArgumentTypeError(
            '%r is not a number of bytes, with K, M, G or T behind it for '
            'larger ones, such as 8G' % text)
    return int(match.group(1)) * SUFFIXES[match.group(2)]


def memory(options):
    """Return (kind, bytes) of each protection of memory that is asked for."""
    sizes = {'low': options.memory_low, 'min': options.memory_min}
    return [(kind, size) for kind, size in sizes.items() if size is not None]


def build_parser():
    """Return the parser of the command line, and of the file of options."""
    parser = argparse.ArgumentParser(
        prog='nova-prio-host', description=__doc__.partition('\n')[0],
        epilog='Options are also read from /%s, as on the command line, '
        'which has the last word.' % CONFIGURATION)
    parser.add_argument('command', choices=('prepare', 'check'))
    parser.add_argument(
        '--high-weight', type=weight, default=HIGH_WEIGHT, metavar='WEIGHT',
        help='CPU weight of all high-priority guests together against the '
        'rest of the host, 1 to 10000 (default: %(default)s, as the host\'s '
        'own services)')
    parser.add_argument(
        '--low-weight', type=low_weight, default=LOW_WEIGHT, metavar='WEIGHT',
        help='CPU weight of all low-priority guests together, idle or 1 to '
        '10000 (default: %(default)s)')
    parser.add_argument(
        '--io-weight', type=weight, metavar='WEIGHT',
        help='I/O weight of all low-priority guests together, 1 to 10000; '
        'the kernel\'s default is 100 (default: not set)')
    for kind, meaning in (('low', 'while others have more than their own'),
                          ('min', 'whatever happens')):
        parser.add_argument(
            '--memory-' + kind, type=memory_size, metavar='BYTES',
            help='memory that is not taken from high-priority guests %s, '
            'such as 64G; cgroup v2 only (default: not set)' % meaning)
    parser.add_argument(
        '--root', type=pathlib.Path, default=pathlib.Path('/'), metavar='DIR',
        help='where the file system of the host begins (default: /)')
    parser.add_argument(
        '--json', action='store_true',
        help='with check: print what is wrong as a list to standard output')
    return parser


def configured(path, parser):
    """Return the options that the file at a path gives."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition('#')[0].split()
        wrong = [word for place, word in enumerate(words)
                 if word == '--json' or not (place or word[:2] == '--')]
        if wrong:
            parser.error('line %d: %r is no option of prepare; these begin '
                         'with --' % (number, wrong[0]))
        found += words
    return found


def to_prepare(argv):
    """Return the command line that prepares, with the options of this one."""
    options = [word for word in argv
               if word not in ('check', 'prepare', '--json')]
    is_file = pathlib.Path(sys.argv[0]).name == pathlib.Path(__file__).name
    called = ['python3', sys.argv[0]] if is_file else ['nova-prio-host']
    return shlex.join([*called, 'prepare', *options])


def main(argv=None):
    """Run the command; return 0 if all is right, 1 if something is not."""
    argv = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.json and options.command != 'check':
        parser.error('argument --json: goes with check alone')
    if not options.root.is_dir():
        parser.error('argument --root: %s is not a directory' % options.root)
    try:
        path = options.root / CONFIGURATION
        if path.exists():
            parser.prog += ' (with %s)' % path
            options = parser.parse_args([*configured(path, parser), *argv])
        options.to_prepare = to_prepare(argv)
        wrong = (prepare if options.command == 'prepare' else check)(
            Host(options))
    except OSError as error:
        wrong = ['%s: %s.' % (error.filename, error.strerror)]
    if options.json:
        print(json.dumps(wrong, indent=2))
    else:
        print(''.join(sentence + '\n' for sentence in wrong), end='',
              file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
