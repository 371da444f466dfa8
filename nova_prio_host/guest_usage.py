# SPDX-License-Identifier: Apache-2.0

"""Read how guests use the CPUs, from the files of the kernel.

Functions take and return a cgroup as the pathlib.Path of its directory. A
guest is the cgroup of the guest. :mod:`nova_prio_host.hierarchies` explains
the terms of cgroups.
"""

import errno
import os
import pathlib

from nova_prio_host import hierarchies


def _sum(numbers):
    """Return the sum of the numbers that are not None; None without any.

    :param numbers: list of numbers or None
    """
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def read_cpu_seconds(host_hierarchies, hierarchy, cgroups):
    """Return the CPU time of cgroups and their children.

    The kernel keeps the time of children that are gone.

    :param host_hierarchies: list of the Hierarchies of the host
    :param hierarchy: the Hierarchy of the cgroups, with the controller cpu
    :returns: None if the kernel does not count the time
    """
    if isinstance(hierarchy, hierarchies.CgroupV2):
        return _sum([_read_value(path / 'cpu.stat', 'usage_usec ', 1e6)
                     for path in cgroups])
    # On cgroup v1, another hierarchy may count the time.
    accounting = hierarchies.select_hierarchy(host_hierarchies, 'cpuacct')
    if accounting is None:
        return None
    files = [accounting.top / path.name / 'cpuacct.usage' for path in cgroups]
    return _sum([_read_value(file, '', 1e9) for file in files])


def read_pressure_seconds(cgroups):
    """Return the time in which at least one thread waited for a CPU.

    :returns: None if the kernel does not count the time
    """
    # "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", in microseconds.
    return _sum([_read_value(path / 'cpu.pressure', 'some ', 1e6)
                 for path in cgroups])


def _read_value(path, prefix, per_second):
    """Return the number at the end of the line with a prefix, in seconds.

    :param prefix: the first words of the line; '' for the first line
    :param per_second: number of units in a second
    :returns: None if there is no such file or line
    """
    for line in _read_lines(path):
        if line.startswith(prefix):
            return int(line.replace('=', ' ').split()[-1]) / per_second
    return None


def read_weight(hierarchy, cgroup):
    """Return the weight with the default 100, 0 for idle; None if unknown."""
    if _read_lines(cgroup / 'cpu.idle') == ['1']:
        return 0
    lines = _read_lines(cgroup / hierarchy.CPU.name)
    return int(lines[0]) * 100 / hierarchy.CPU.default if lines else None


def list_guests(cgroup):
    """Return the guests in a cgroup, a sorted list."""
    return [path for path in sorted(cgroup.iterdir())
            if path.is_dir() and _list_vcpu_cgroups(path)]


def _list_vcpu_cgroups(guest):
    """Return the cgroups vcpu0, vcpu1 and so on of a guest, a list.

    libvirt makes them below a directory "libvirt" or in that of the guest.
    """
    # Unlike glob, os.walk ignores directories that are gone meanwhile.
    cgroups = []
    for top, names, _ in os.walk(str(guest)):
        for name in names:
            if name.startswith('vcpu'):
                cgroups.append(pathlib.Path(top, name))
    return cgroups


def list_vcpu_threads(guest):
    """Return the IDs of the threads of the vCPUs of a guest, a list of str.

    The other threads of QEMU come and go, so that their sum may decrease.
    """
    threads = []
    for cgroup in _list_vcpu_cgroups(guest):
        # The name in cgroup v2, and in cgroup v1.
        for name in ('cgroup.threads', 'tasks'):
            threads += _read_lines(cgroup / name)
    return threads


def read_delay_seconds(path):
    """Return the time that a thread waited for a CPU, None if it is gone.

    :param path: pathlib.Path of the file schedstat of the thread
    """
    lines = _read_lines(path)
    # "running waiting slices", the times in nanoseconds.
    return int(lines[0].split()[1]) / 1e9 if lines else None


def _read_lines(path):
    """Return the lines of a file, a list; empty if the kernel lacks it.

    Threads and cgroups may end between the listing and this call.
    """
    try:
        return pathlib.Path(path).read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.EOPNOTSUPP):
            return []
        raise


def get_guest_name(guest):
    """Return the name of a guest from the name of its directory.

    libvirt has shortened it, and systemd has escaped its hyphens.
    """
    name = guest.name.replace('\\x2d', '-')
    for suffix in ('.libvirt-qemu', '.scope'):
        if name.endswith(suffix):
            name = name[:-len(suffix)]
    return name[len('machine-'):] if name.startswith('machine-') else name
