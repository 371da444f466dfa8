# SPDX-License-Identifier: Apache-2.0

"""Measure the partitions of a host, as text in the format of Prometheus."""

import errno
import os
import pathlib
import time
import typing

from nova_prio_host import hierarchies
from nova_prio_host import host


class Metric(typing.NamedTuple):
    """The type of a metric for Prometheus, the names of its labels, a help."""

    kind: str
    labels: typing.Tuple[str, ...]
    help: str


#: Name of a metric -> Metric.
METRICS = {
    'nova_prio_partition_cpu_seconds_total': Metric(
        'counter', ('priority',), 'CPU time of all guests of a priority.'),
    'nova_prio_partition_cpu_waiting_seconds_total': Metric(
        'counter', ('priority',), 'Time in which at least one thread of the '
        'guests of a priority waited for a CPU.'),
    'nova_prio_partition_guests': Metric(
        'gauge', ('priority',), 'Number of running guests of a priority.'),
    'nova_prio_partition_cpu_weight': Metric(
        'gauge', ('cgroup',), 'CPU weight of a cgroup, with the default 100; '
        '0 for the weight idle.'),
    'nova_prio_guest_delay_seconds_total': Metric(
        'counter', ('priority', 'guest'), 'Time that the vCPUs of a guest '
        'waited for a CPU, summed over its vCPUs.'),
    'nova_prio_cgroup_problems': Metric(
        'gauge', (), 'Number of problems that nova-prio-host check finds.'),
    'nova_prio_host_collection_timestamp_seconds': Metric(
        'gauge', (), 'Time of this measurement, in seconds since 1970.'),
}


def write(options):
    """Measure the host, and write the text to ``options.output``.

    :param options: argparse.Namespace of nova-prio-host; without an output,
        print the text
    :raises OSError: if the file cannot be written
    """
    text = format_text(collect(options))
    if options.output is None:
        print(text, end='')
        return
    # node_exporter must not read half a file, nor the new one beside it.
    new = options.output.with_name(
        '%s.%d.new' % (options.output.name, os.getpid()))
    try:
        new.write_text(text)
        new.replace(options.output)
    finally:
        if new.exists():
            new.unlink()


def collect(options):
    """Yield (name of a metric, values of its labels, its value).

    :param options: argparse.Namespace of nova-prio-host
    """
    cgroup_host = host.CgroupHost(options)
    yield 'nova_prio_cgroup_problems', (), len(cgroup_host.check())
    for priority, partition in zip(('high', 'low'), hierarchies.PARTITIONS):
        yield from _measure_partition(
            options.root / 'proc', cgroup_host.found, priority, partition)
    yield 'nova_prio_host_collection_timestamp_seconds', (), time.time()


def format_text(samples):
    """Return samples in the text format of Prometheus.

    :param samples: iterable as that of ``collect``
    """
    values = {name: [] for name in METRICS}
    for name, labels, value in samples:
        text = ','.join('%s="%s"' % pair for pair in zip(
            METRICS[name].labels, map(_escape, labels)))
        values[name].append('%s%s %s\n' % (
            name, '{%s}' % text if text else '', value))
    return ''.join(
        '# HELP %s %s\n# TYPE %s %s\n%s' % (
            name, METRICS[name].help, name, METRICS[name].kind, ''.join(lines))
        for name, lines in values.items() if lines)


def _escape(value):
    """Return the value of a label as Prometheus reads it."""
    return value.replace('\\', r'\\').replace('"', r'\"').replace('\n', r'\n')


def _measure_partition(proc, trees, priority, partition):
    """Yield the samples of a partition, as ``collect`` does.

    :param proc: pathlib.Path of the directory of the processes
    :param trees: list of the Hierarchies of the host
    :param partition: HIGH or LOW of ``hierarchies``
    """
    tree = _find_tree(trees, 'cpu')
    if tree is None:
        return
    # Guests are in only one of them, the other one counts nothing.
    cgroups = [path for path in (tree.top / (partition + '.partition'),
                                 tree.top / (partition + '.slice'))
               if path.is_dir()]
    for name, seconds in (
            ('cpu', _read_cpu_seconds(trees, tree, cgroups)),
            ('cpu_waiting', _sum(map(_read_pressure_seconds, cgroups)))):
        if seconds is not None:
            yield ('nova_prio_partition_%s_seconds_total' % name,
                   (priority,), seconds)
    for path in cgroups:
        weight = _read_weight(tree, path)
        if weight is not None:
            yield 'nova_prio_partition_cpu_weight', (path.name,), weight
    guests = [guest for path in cgroups for guest in _list_guests(path)]
    yield 'nova_prio_partition_guests', (priority,), len(guests)
    for guest in guests:
        delays = [_read_delay_seconds(proc / thread / 'schedstat')
                  for thread in _list_vcpu_threads(guest)]
        # Prometheus takes a smaller sum for a restart of the counter.
        if None not in delays:
            yield ('nova_prio_guest_delay_seconds_total',
                   (priority, _get_guest_name(guest)), sum(delays))


def _find_tree(trees, controller):
    """Return the Hierarchy that has a controller, or None."""
    return next((tree for tree in trees if controller in tree.controllers),
                None)


def _sum(numbers):
    """Return the sum of the numbers that are not None; None without any."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _read_cpu_seconds(trees, tree, cgroups):
    """Return the CPU time of cgroups and their children, or None.

    The kernel keeps the time of children that are gone.
    """
    if isinstance(tree, hierarchies.CgroupV2):
        return _sum(_read_value(path / 'cpu.stat', 'usage_usec ', 1e6)
                    for path in cgroups)
    accounting = _find_tree(trees, 'cpuacct')
    if accounting is None:
        return None
    return _sum(_read_value(accounting.top / path.name / 'cpuacct.usage', '',
                            1e9) for path in cgroups)


def _read_pressure_seconds(cgroup):
    """Return the time with a waiting thread, None if it is not known."""
    # "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", in microseconds.
    return _read_value(cgroup / 'cpu.pressure', 'some ', 1e6)


def _read_value(path, prefix, per_second):
    """Return the number at the end of the line with a prefix, in seconds.

    :param per_second: number of units in a second
    :returns: None if there is no such file or line
    """
    for line in _read_lines(path):
        if line.startswith(prefix):
            return int(line.replace('=', ' ').split()[-1]) / per_second
    return None


def _read_weight(tree, cgroup):
    """Return the weight with the default 100, 0 for idle; None if unknown."""
    if _read_lines(cgroup / 'cpu.idle') == ['1']:
        return 0
    lines = _read_lines(cgroup / tree.CPU.name)
    return int(lines[0]) * 100 / tree.CPU.default if lines else None


def _list_guests(cgroup):
    """Return the cgroups of the guests in a cgroup, sorted pathlib.Paths."""
    return [path for path in sorted(cgroup.iterdir())
            if path.is_dir() and _list_vcpu_cgroups(path)]


def _list_vcpu_cgroups(guest):
    """Return the cgroups vcpu0, vcpu1 and so on of a guest, a list.

    libvirt makes them below a directory "libvirt" or in that of the guest.
    """
    # Unlike glob, os.walk ignores directories that are gone meanwhile.
    return [pathlib.Path(top, name) for top, names, _ in os.walk(str(guest))
            for name in names if name.startswith('vcpu')]


def _list_vcpu_threads(guest):
    """Return the IDs of the threads of the vCPUs of a guest, a list of str.

    The other threads of QEMU come and go, so that their sum may decrease.
    """
    return [thread for cgroup in _list_vcpu_cgroups(guest)
            for name in ('cgroup.threads', 'tasks')
            for thread in _read_lines(cgroup / name)]


def _read_delay_seconds(path):
    """Return the time that a thread waited for a CPU, None if it is gone."""
    lines = _read_lines(path)
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


def _get_guest_name(cgroup):
    """Return the name of a guest from the directory of its cgroup.

    libvirt has shortened it, and systemd has escaped its hyphens.
    """
    name = cgroup.name.replace('\\x2d', '-')
    for suffix in ('.libvirt-qemu', '.scope'):
        if name.endswith(suffix):
            name = name[:-len(suffix)]
    return name[len('machine-'):] if name.startswith('machine-') else name
