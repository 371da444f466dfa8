# SPDX-License-Identifier: Apache-2.0

"""What has to be on one host, by all the ways in which libvirt works."""

import errno
import pathlib
import subprocess
import time

from nova_prio.virt.cgroups import hierarchies

UNIT_DIRECTORIES = ('etc/systemd/system', 'run/systemd/system',
                    'usr/local/lib/systemd/system', 'usr/lib/systemd/system',
                    'lib/systemd/system')
CONFIGURATION = 'etc/nova-prio-host.conf'
SETTLE_SECONDS = 3

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


class Systemd:
    """The slices in which machined puts guests, where libvirt uses it."""

    def __init__(self, root, found, running):
        self.places = [root / place for place in UNIT_DIRECTORIES]
        self.hierarchies = found
        self.running = running

    def steps(self, options):
        """Yield the steps of the units, and of the slices where they run."""
        for name in hierarchies.PARTITIONS:
            unit = name + '.slice'
            yield self.unit_file(unit, self.text(name, options))
            for hierarchy in self.hierarchies if self.running else ():
                path = hierarchy.top / unit
                if 'cpu' in hierarchy.controllers:
                    yield hierarchies.make_directory_step(
                        path, lambda: self.call('start', unit),
                        'started %s' % unit)
                if path.is_dir():
                    yield from hierarchy.settings(
                        path, name, options,
                        mend=lambda: self.call('daemon-reload'),
                        remedy='%s, and where that does not help look for '
                        'drop-ins with "systemctl cat %s"'
                        % (hierarchies.PREPARE, unit))

    def text(self, name, options):
        """Return the text of a unit."""
        is_low = name == hierarchies.LOW
        weight = options.low_weight if is_low else options.high_weight
        if weight != hierarchies.IDLE:
            lines = ['CPUWeight=%d' % weight]
        elif self.has_idle():
            lines = ['# systemd before 252 knows no idle, and keeps the 1.',
                     'CPUWeight=1', 'CPUWeight=idle']
        else:
            lines = ['CPUWeight=1']
        if is_low and options.io_weight:
            lines.append('IOWeight=%d' % options.io_weight)
        if not is_low:
            lines += ['Memory%s=%d' % (kind.title(), size)
                      for kind, size in hierarchies.list_memory_protections(options)]
        return UNIT % (CONFIGURATION, name.split('_')[0], '\n'.join(lines))

    def has_idle(self):
        """Return False if the kernel has no idle, and v2 has the CPUs.

        systemd then sets no weight at all; on cgroup v1 it sets the least.
        """
        paths = [hierarchy.top / (hierarchies.LOW + '.partition')
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
        return hierarchies.Step(wrong, mend=mend, done='wrote %s' % ours)

    def call(self, *arguments):
        subprocess.run(('systemctl', *arguments), check=True, timeout=60,
                       capture_output=True, text=True)


class CgroupHost:
    """The steps of one host, which :meth:`check` and :meth:`prepare` take."""

    def __init__(self, options):
        self.options = options
        root = options.root
        self.cgroups = root / 'sys/fs/cgroup'
        self.found = list(hierarchies.find_hierarchies(self.cgroups))
        self.has_systemd = (root / 'run/systemd/system').is_dir()
        # The file system of a host that does not run.
        self.is_image = (root != pathlib.Path('/') and not self.found and
                         (root / 'etc/systemd/system').is_dir())

    def steps(self):
        """Yield each step once the one before it was put right."""
        if not self.is_image:
            yield from self.needs()
        ways = list(self.found)
        # Whether libvirt reaches machined shows only when it starts a guest:
        # hosts with systemd have the directories as well. Those of v1 stay
        # only once the slices are there.
        if self.has_systemd or self.is_image:
            ways.insert(
                sum(isinstance(way, hierarchies.CgroupV2) for way in ways),
                Systemd(self.options.root, self.found, self.has_systemd))
        for way in ways:
            yield from way.steps(self.options)

    def needs(self):
        """Yield a step for each need that nothing on this host can meet."""
        if not any('cpu' in way.controllers for way in self.found):
            yield hierarchies.Step(
                '%s has no hierarchy with the controller cpu' % self.cgroups,
                'mount the cgroups of the host there')
        if hierarchies.list_memory_protections(self.options) and not any(
                isinstance(way, hierarchies.CgroupV2) and
                'memory' in way.controllers for way in self.found):
            yield hierarchies.Step(
                '%s has no cgroup v2 with the controller memory'
                % self.cgroups, 'boot the host with cgroup v2, or '
                'leave out --memory-low and --memory-min')

    def check(self):
        """Return what is wrong, one sentence for each thing."""
        return ['%s: %s.' % (step.wrong, step.remedy.replace(
            '{command}', self.options.to_prepare))
            for step in self.steps() if step.wrong]

    def prepare(self):
        """Put right what is wrong; return what still is, as check() does."""
        failed = []
        for step in self.steps():
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
                    return [failed[-1] +
                            ' Run this as root, on the host itself.']
        # systemd applies what it has read a moment after it answers.
        deadline = time.monotonic() + SETTLE_SECONDS * self.has_systemd
        wrong = failed or self.check()
        while wrong and not failed and time.monotonic() < deadline:
            time.sleep(0.1)
            wrong = self.check()
        return wrong
