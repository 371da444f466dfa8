# SPDX-License-Identifier: Apache-2.0

"""A host of NUMA cells and CPUs that this machine does not have.

libvirt reads the cells from sysfs, and the host has its own copy. System calls
are redirected to the real machine: all even CPUs to one CPU, all odd CPUs to
another CPU, and the memory of all cells to the first cell.
"""

import os
import pathlib

from tests.libvirt import daemon

# Replaces functions of the C library and of libnuma in libvirtd and QEMU.
PRELOAD = '''\
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *wanted)
{
    static const int real[] = {%(real)s};
    cpu_set_t mapped;

    CPU_ZERO(&mapped);
    for (size_t cpu = 0; cpu < 8 * size; cpu++)
        if (CPU_ISSET_S(cpu, size, wanted))
            CPU_SET(real[cpu %% 2], &mapped);
    return syscall(SYS_sched_setaffinity, pid, sizeof mapped, &mapped);
}

static const unsigned long first = 1;

long mbind(void *start, unsigned long length, int mode,
           const unsigned long *nodes, unsigned long size, unsigned flags)
{
    return syscall(SYS_mbind, start, length, mode, nodes ? &first : nodes,
                   nodes ? 8 * sizeof first : 0, flags);
}

long set_mempolicy(int mode, const unsigned long *nodes, unsigned long size)
{
    return syscall(SYS_set_mempolicy, mode, nodes ? &first : nodes,
                   nodes ? 8 * sizeof first : 0);
}
'''


def real_cpus(cpus):
    """Return the CPUs of this machine that stand for CPUs of a host."""
    real = sorted(os.sched_getaffinity(0))
    return {real[cpu % 2] for cpu in cpus}


class Host(daemon.Host):
    """A host with the NUMA cells in ``cells``."""

    #: NUMA cell -> its CPUs.
    cells = {0: (0, 1, 2, 3)}

    mounts = {**daemon.Host.mounts, 'system': '/sys/devices/system'}
    # The kernel accepts only existing CPUs in a cpuset.
    configuration = {
        **daemon.Host.configuration,
        'qemu.conf': daemon.Host.configuration['qemu.conf'].replace(
            ', "cpuset"', '')}

    def _write_files(self):
        super()._write_files()
        source = self.directory / 'preload.c'
        library = self.directory / 'preload.so'
        real = sorted(os.sched_getaffinity(0))[:2]
        source.write_text(PRELOAD % {'real': ', '.join(map(str, real))})
        daemon.run('gcc', '-shared', '-fPIC', '-o', str(library), str(source))
        self.environment['LD_PRELOAD'] = str(library)
        for path, text in _sysfs(self.cells):
            file = self.directory / 'system' / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text('%s\n' % text)
        for cell, cpus in self.cells.items():
            for cpu in cpus:
                pathlib.Path(
                    self.directory, 'system/node/node%d/cpu%d' % (cell, cpu)
                    ).symlink_to('../../cpu/cpu%d' % cpu)


def _sysfs(cells):
    """Yield (path, text) of each file that libvirt and libnuma read."""
    cpus = '0-%d' % max(cpu for cell in cells.values() for cpu in cell)
    cell_range = '0-%d' % max(cells)
    for name in 'online', 'possible', 'present':
        yield pathlib.Path('cpu', name), cpus
    for name in 'online', 'possible', 'has_cpu', 'has_memory':
        yield pathlib.Path('node', name), cell_range
    for cell, cpus_of_cell in cells.items():
        node = pathlib.Path('node/node%d' % cell)
        numbers = ','.join(map(str, cpus_of_cell))
        mask = '%x' % sum(1 << cpu for cpu in cpus_of_cell)
        yield node / 'cpulist', numbers
        yield node / 'cpumap', mask
        yield node / 'distance', ' '.join(
            '10' if other == cell else '20' for other in cells)
        yield node / 'meminfo', (
            'Node %d MemTotal: 4194304 kB\nNode %d MemFree: 4194304 kB' % (
                cell, cell))
        for core, cpu in enumerate(cpus_of_cell):
            topology = pathlib.Path('cpu/cpu%d/topology' % cpu)
            yield topology / 'physical_package_id', cell
            yield topology / 'die_id', 0
            yield topology / 'core_id', core
            yield topology / 'core_siblings', mask
            yield topology / 'core_siblings_list', numbers
            yield topology / 'thread_siblings', '%x' % (1 << cpu)
            yield topology / 'thread_siblings_list', cpu
