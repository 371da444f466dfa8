# SPDX-License-Identifier: Apache-2.0

"""The cgroups and systemd units that one host must have.

:mod:`nova_prio_host.hierarchies` explains the terms of cgroups.
"""

import errno
import pathlib
import subprocess
import time

from nova_prio_host import hierarchies
from nova_prio_host import steps

UNIT_DIRECTORIES = ('etc/systemd/system', 'run/systemd/system',
                    'usr/local/lib/systemd/system', 'usr/lib/systemd/system',
                    'lib/systemd/system')
CONFIGURATION = 'etc/nova-prio-host.conf'
SETTLE_SECONDS = 3

UNIT = """\
# nova-prio-host rewrites this file if it does not match its options. Put your
# own settings into /%(configuration)s or into a drop-in.
[Unit]
Description=Guests of %(priority)s CPU priority
Documentation=man:systemd.resource-control(5)
Before=slices.target

[Slice]
# Beside cgroup v1, systemd removes empty directories that are not its own,
# in the hierarchies that none of its units uses.
IOAccounting=yes
MemoryAccounting=yes
%(settings)s
"""


class Systemd:
    """The slices in which machined puts guests, if libvirt uses machined.

    A slice is a unit of systemd with a cgroup. machined is the service of
    systemd that registers virtual machines. Each partition has a slice, and
    its unit file has the weights. A drop-in is a further file of a unit, in
    which an operator overrides settings of the unit file.

    :param root: pathlib.Path of the root directory of the host
    :param host_hierarchies: list of the Hierarchies of the host
    :param is_running: whether systemd runs; otherwise only write unit files
    """

    def __init__(self, root, host_hierarchies, is_running):
        self.directories = [root / name for name in UNIT_DIRECTORIES]
        self.hierarchies = host_hierarchies
        self.is_running = is_running

    def plan_steps(self, options):
        """Yield the steps of the unit files and of the running slices.

        :param options: argparse.Namespace of nova-prio-host
        """
        for name in hierarchies.PARTITIONS:
            text = self._format_unit(name, options)
            yield self._plan_unit_file(name + '.slice', text)
            if self.is_running:
                for hierarchy in self.hierarchies:
                    yield from self._plan_slice(hierarchy, name, options)

    def _plan_slice(self, hierarchy, name, options):
        """Yield the steps of the slice of a partition in one hierarchy.

        :param name: HIGH or LOW of ``hierarchies``
        """
        unit = name + '.slice'
        path = hierarchy.top / unit
        if 'cpu' in hierarchy.controllers:
            yield steps.Step(
                problem=steps.find_directory_problem(path),
                apply=lambda: _run_systemctl(['start', unit]),
                message='started %s' % unit)
        if path.is_dir():
            systemd_slice = steps.SystemdSlice(
                reload=_reload_systemd,
                remedy='%s, and if that does not help, look for drop-ins '
                'with "systemctl cat %s"' % (steps.PREPARE, unit))
            yield from hierarchy.plan_settings(
                path, name, options, systemd_slice)

    def _format_unit(self, name, options):
        """Return the text of the unit file of a slice.

        :param name: HIGH or LOW of ``hierarchies``
        """
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
            protections = hierarchies.list_memory_protections(options)
            for kind, size_bytes in protections:
                lines.append('Memory%s=%d' % (kind.title(), size_bytes))
        return UNIT % {'configuration': CONFIGURATION,
                       'priority': hierarchies.get_priority(name),
                       'settings': '\n'.join(lines)}

    def _has_kernel_without_idle(self):
        """Return whether the kernel has weights of cgroup v2, but not idle.

        With such a kernel, systemd sets no weight for idle.
        """
        for hierarchy in self.hierarchies:
            path = hierarchy.top / (hierarchies.LOW + '.partition')
            has_weight = (path / 'cpu.weight').exists()
            if has_weight and not (path / 'cpu.idle').exists():
                return True
        return False

    def _plan_unit_file(self, unit, text):
        """Return the step that makes systemd read this text for a unit."""
        target = self.directories[0] / unit
        # systemd reads the first of these files only.
        files = [directory / unit for directory in self.directories
                 if (directory / unit).exists()]
        problem = None
        if not files:
            problem = '%s is missing' % target
        elif files[0].read_text() != text:
            problem = '%s does not match the options' % files[0]
        return steps.Step(problem=problem,
                          apply=lambda: self._write_unit_file(target, text),
                          message='wrote %s' % target)

    def _write_unit_file(self, target, text):
        """Write a unit file, and have systemd read it if systemd runs.

        :param target: pathlib.Path of the file
        """
        # systemd must not read half a file.
        new = target.with_name('.%s.new' % target.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text)
        new.replace(target)
        if self.is_running:
            _reload_systemd()


def _reload_systemd():
    """Have systemd read all unit files again, and apply their settings."""
    _run_systemctl(['daemon-reload'])


def _run_systemctl(arguments):
    """Run systemctl.

    :param arguments: list of str
    :raises subprocess.SubprocessError: if systemctl fails or does not end
    """
    subprocess.run(['systemctl'] + arguments, check=True, timeout=60,
                   capture_output=True, text=True)


class CgroupHost:
    """Checks or prepares one host, or the image of a host.

    An image is the file system of a host that does not run. It has no cgroups,
    so that only the unit files can be written.

    :param options: argparse.Namespace of nova-prio-host; in addition,
        ``to_prepare`` is the command line that prepares the host
    """

    def __init__(self, options):
        self.options = options
        root = options.root
        self.cgroups = root / 'sys/fs/cgroup'
        self.hierarchies = list(hierarchies.find_hierarchies(self.cgroups))
        self.has_systemd = (root / 'run/systemd/system').is_dir()
        self.is_image = (root != pathlib.Path('/') and
                         not self.hierarchies and
                         (root / 'etc/systemd/system').is_dir())

    def plan_steps(self):
        """Yield each step; apply it, if at all, before the next step."""
        if not self.is_image:
            yield from self._plan_requirements()
        for hierarchy in self.hierarchies:
            if isinstance(hierarchy, hierarchies.CgroupV2):
                yield from hierarchy.plan_steps(self.options)
        # Only the start of a guest shows whether libvirt uses machined.
        # Therefore a host with systemd needs slices and directories. Make the
        # directories of v1 last, or systemd removes them.
        if self.has_systemd or self.is_image:
            systemd = Systemd(root=self.options.root,
                              host_hierarchies=self.hierarchies,
                              is_running=self.has_systemd)
            yield from systemd.plan_steps(self.options)
        for hierarchy in self.hierarchies:
            if isinstance(hierarchy, hierarchies.CgroupV1):
                yield from hierarchy.plan_steps(self.options)

    def _plan_requirements(self):
        """Yield a step for each requirement that this command cannot meet."""
        has_cpu = any('cpu' in hierarchy.controllers
                      for hierarchy in self.hierarchies)
        if not has_cpu:
            yield steps.Step(
                problem='%s has no hierarchy with the controller cpu'
                % self.cgroups,
                remedy='mount the cgroups of the host there')
        # Cgroup v1 cannot protect memory.
        has_memory = any(isinstance(hierarchy, hierarchies.CgroupV2) and
                         'memory' in hierarchy.controllers
                         for hierarchy in self.hierarchies)
        needs_memory = hierarchies.list_memory_protections(self.options)
        if needs_memory and not has_memory:
            yield steps.Step(
                problem='%s has no cgroup v2 with the controller memory'
                % self.cgroups,
                remedy='boot the host with cgroup v2, or leave out '
                '--memory-low and --memory-min')

    def check(self):
        """Return the problems of the host, a list of sentences."""
        problems = []
        for step in self.plan_steps():
            if step.problem:
                remedy = step.remedy.replace(
                    '{command}', self.options.to_prepare)
                problems.append('%s: %s.' % (step.problem, remedy))
        return problems

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
                sentence = '%s: %s.' % (step.problem, error.strerror)
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    return [sentence +
                            ' Run this as root, on the host itself.']
                failed.append(sentence)
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
