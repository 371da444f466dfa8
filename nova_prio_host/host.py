# SPDX-License-Identifier: Apache-2.0

"""The cgroups and systemd units that one host must have."""

import errno
import pathlib
import subprocess
import time

from nova_prio_host import hierarchies

UNIT_DIRECTORIES = ('etc/systemd/system', 'run/systemd/system',
                    'usr/local/lib/systemd/system', 'usr/lib/systemd/system',
                    'lib/systemd/system')
CONFIGURATION = 'etc/nova-prio-host.conf'
SETTLE_SECONDS = 3

UNIT = """\
# nova-prio-host rewrites this file if it does not match its options. Put your
# own settings into /%s or into a drop-in.
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
    """The slices in which machined puts guests, if libvirt uses machined.

    :param root: pathlib.Path of the root directory of the host
    :param found: list of the Hierarchies of the host
    :param is_running: whether systemd runs; otherwise only write unit files
    """

    def __init__(self, root, found, is_running):
        self.directories = [root / name for name in UNIT_DIRECTORIES]
        self.hierarchies = found
        self.is_running = is_running

    def plan_steps(self, options):
        """Yield the steps of the unit files and of the running slices."""
        for name in hierarchies.PARTITIONS:
            unit = name + '.slice'
            yield self._plan_unit_file(unit, self._format_unit(name, options))
            if not self.is_running:
                continue
            for hierarchy in self.hierarchies:
                path = hierarchy.top / unit
                if 'cpu' in hierarchy.controllers:
                    yield hierarchies.make_directory_step(
                        path, lambda: _systemctl('start', unit),
                        'started %s' % unit)
                if path.is_dir():
                    yield from hierarchy.plan_settings(
                        path, name, options,
                        apply=lambda: _systemctl('daemon-reload'),
                        remedy='%s, and if that does not help, look for '
                        'drop-ins with "systemctl cat %s"'
                        % (hierarchies.PREPARE, unit))

    def _format_unit(self, name, options):
        """Return the text of the unit file of a slice."""
        is_low = name == hierarchies.LOW
        weight = options.low_weight if is_low else options.high_weight
        if weight != hierarchies.IDLE:
            lines = ['CPUWeight=%d' % weight]
        elif self._has_kernel_without_idle():
            lines = ['CPUWeight=1']
        else:
            lines = ['# systemd before 252 ignores idle, and keeps the 1.',
                     'CPUWeight=1', 'CPUWeight=idle']
        if is_low and options.io_weight:
            lines.append('IOWeight=%d' % options.io_weight)
        if not is_low:
            lines += ['Memory%s=%d' % (kind.title(), size) for kind, size in
                      hierarchies.list_memory_protections(options)]
        return UNIT % (CONFIGURATION, name.split('_')[0], '\n'.join(lines))

    def _has_kernel_without_idle(self):
        """Return whether the kernel has weights of cgroup v2, but not idle.

        With such a kernel, systemd sets no weight for idle.
        """
        paths = [hierarchy.top / (hierarchies.LOW + '.partition')
                 for hierarchy in self.hierarchies]
        return any((path / 'cpu.weight').exists() and
                   not (path / 'cpu.idle').exists() for path in paths)

    def _plan_unit_file(self, unit, text):
        """Return the step that makes systemd read this text for a unit."""
        target = self.directories[0] / unit

        def write():
            new = target.with_name('.%s.new' % unit)
            target.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text)
            new.replace(target)
            if self.is_running:
                _systemctl('daemon-reload')

        # systemd reads the first of these files only.
        files = [directory / unit for directory in self.directories
                 if (directory / unit).exists()]
        problem = None
        if not files:
            problem = '%s is missing' % target
        elif files[0].read_text() != text:
            problem = '%s does not match the options' % files[0]
        return hierarchies.Step(problem, apply=write,
                                message='wrote %s' % target)


def _systemctl(*arguments):
    subprocess.run(('systemctl', *arguments), check=True, timeout=60,
                   capture_output=True, text=True)


class CgroupHost:
    """Checks or prepares one host.

    :param options: argparse.Namespace of nova-prio-host
    """

    def __init__(self, options):
        self.options = options
        root = options.root
        self.cgroups = root / 'sys/fs/cgroup'
        self.found = list(hierarchies.find_hierarchies(self.cgroups))
        self.has_systemd = (root / 'run/systemd/system').is_dir()
        # The file system of a host that does not run.
        self.is_image = (root != pathlib.Path('/') and not self.found and
                         (root / 'etc/systemd/system').is_dir())

    def plan_steps(self):
        """Yield each step; apply it, if at all, before the next step."""
        if not self.is_image:
            yield from self._plan_requirements()
        v1, v2 = ([tree for tree in self.found if isinstance(tree, version)]
                  for version in (hierarchies.CgroupV1, hierarchies.CgroupV2))
        systemd = [Systemd(self.options.root, self.found, self.has_systemd)]
        # Only the start of a guest shows whether libvirt uses machined.
        # Therefore a host with systemd needs slices and directories. Make the
        # directories of v1 last, or systemd removes them.
        has_slices = self.has_systemd or self.is_image
        for tree in (*v2, *(systemd if has_slices else ()), *v1):
            yield from tree.plan_steps(self.options)

    def _plan_requirements(self):
        """Yield a step for each requirement that this command cannot meet."""
        if not any('cpu' in tree.controllers for tree in self.found):
            yield hierarchies.Step(
                '%s has no hierarchy with the controller cpu' % self.cgroups,
                'mount the cgroups of the host there')
        if hierarchies.list_memory_protections(self.options) and not any(
                isinstance(tree, hierarchies.CgroupV2) and
                'memory' in tree.controllers for tree in self.found):
            yield hierarchies.Step(
                '%s has no cgroup v2 with the controller memory'
                % self.cgroups, 'boot the host with cgroup v2, or '
                'leave out --memory-low and --memory-min')

    def check(self):
        """Return the problems of the host, a list of sentences."""
        return ['%s: %s.' % (step.problem, step.remedy.replace(
            '{command}', self.options.to_prepare))
            for step in self.plan_steps() if step.problem]

    def prepare(self):
        """Apply the steps; return the remaining problems, as check() does."""
        failed = []
        for step in self.plan_steps():
            try:
                if step.problem and step.apply:
                    step.apply()
                    print(step.message)
            except subprocess.SubprocessError as error:
                reason = ' '.join((error.stderr or '').split())
                failed.append('%s: %s %s' % (step.problem, error, reason))
            except OSError as error:
                failed.append('%s: %s.' % (step.problem, error.strerror))
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    return [failed[-1] +
                            ' Run this as root, on the host itself.']
        if failed:
            return failed
        # systemd applies new settings a moment after systemctl has ended.
        settle_seconds = SETTLE_SECONDS if self.has_systemd else 0
        deadline = time.monotonic() + settle_seconds
        problems = self.check()
        while problems and time.monotonic() < deadline:
            time.sleep(0.1)
            problems = self.check()
        return problems
