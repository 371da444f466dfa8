# SPDX-License-Identifier: Apache-2.0

"""Measure the partitions of a host, as text in the format of Prometheus.

:mod:`nova_prio_host.hierarchies` explains the terms of cgroups.
"""

import os
import time
import typing

from nova_prio_host import guest_usage
from nova_prio_host import hierarchies
from nova_prio_host import host


class Metric(typing.NamedTuple):
    """The type of a metric for Prometheus, the names of its labels, a help.

    A metric has one value for each combination of the values of its labels.
    ``kind`` is 'counter' for a value that only grows, otherwise 'gauge'.
    """

    kind: str
    labels: typing.Tuple[str, ...]
    help: str


class Sample(typing.NamedTuple):
    """One measured value of a metric.

    ``label_values`` has a value for each of the labels of the Metric.
    """

    name: str
    label_values: typing.Tuple[str, ...]
    value: float


#: Name of a metric -> Metric.
METRICS = {
    'nova_prio_partition_cpu_seconds_total': Metric(
        kind='counter', labels=('priority',),
        help='CPU time of all guests of a priority.'),
    'nova_prio_partition_cpu_waiting_seconds_total': Metric(
        kind='counter', labels=('priority',),
        help='Time in which at least one thread of the guests of a priority '
        'waited for a CPU.'),
    'nova_prio_partition_guests': Metric(
        kind='gauge', labels=('priority',),
        help='Number of running guests of a priority.'),
    'nova_prio_partition_cpu_weight': Metric(
        kind='gauge', labels=('cgroup',),
        help='CPU weight of a cgroup, with the default 100; 0 for the weight '
        'idle.'),
    'nova_prio_guest_delay_seconds_total': Metric(
        kind='counter', labels=('priority', 'guest'),
        help='Time that the vCPUs of a guest waited for a CPU, summed over '
        'its vCPUs.'),
    'nova_prio_cgroup_problems': Metric(
        kind='gauge', labels=(),
        help='Number of problems that nova-prio-host check finds.'),
    'nova_prio_host_collection_timestamp_seconds': Metric(
        kind='gauge', labels=(),
        help='Time of this measurement, in seconds since 1970.'),
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
    """Yield the Samples of a host.

    :param options: argparse.Namespace of nova-prio-host
    """
    cgroup_host = host.CgroupHost(options)
    yield Sample(name='nova_prio_cgroup_problems', label_values=(),
                 value=len(cgroup_host.check()))
    for partition in hierarchies.PARTITIONS:
        yield from _measure_partition(
            options.root / 'proc', cgroup_host.hierarchies, partition)
    yield Sample(name='nova_prio_host_collection_timestamp_seconds',
                 label_values=(), value=time.time())


def format_text(samples):
    """Return Samples in the text format of Prometheus."""
    # The format wants all samples of a metric together.
    lines_by_name = {name: [] for name in METRICS}
    for sample in samples:
        labels = _format_labels(
            METRICS[sample.name].labels, sample.label_values)
        lines_by_name[sample.name].append(
            '%s%s %s\n' % (sample.name, labels, sample.value))
    text = ''
    for name, lines in lines_by_name.items():
        if lines:
            text += '# HELP %s %s\n' % (name, METRICS[name].help)
            text += '# TYPE %s %s\n' % (name, METRICS[name].kind)
            text += ''.join(lines)
    return text


def _format_labels(names, values):
    """Return labels such as {priority="high"}, '' without any.

    :param names: tuple of the names of the labels
    :param values: tuple with the value of each label
    """
    if not names:
        return ''
    pairs = ['%s="%s"' % (name, _escape(value))
             for name, value in zip(names, values)]
    return '{%s}' % ','.join(pairs)


def _escape(value):
    """Return the value of a label as Prometheus reads it."""
    return value.replace('\\', r'\\').replace('"', r'\"').replace('\n', r'\n')


def _measure_partition(proc, host_hierarchies, partition):
    """Yield the Samples of a partition.

    :param proc: pathlib.Path of the directory of the processes
    :param host_hierarchies: list of the Hierarchies of the host
    :param partition: HIGH or LOW of ``hierarchies``
    """
    priority = hierarchies.get_priority(partition)
    hierarchy = hierarchies.select_hierarchy(host_hierarchies, 'cpu')
    if hierarchy is None:
        return
    # Guests are in only one of them, the other one counts nothing.
    directories = [hierarchy.top / (partition + suffix)
                   for suffix in ('.partition', '.slice')]
    cgroups = [path for path in directories if path.is_dir()]
    cpu_seconds = guest_usage.read_cpu_seconds(
        host_hierarchies, hierarchy, cgroups)
    if cpu_seconds is not None:
        yield Sample(name='nova_prio_partition_cpu_seconds_total',
                     label_values=(priority,), value=cpu_seconds)
    waiting_seconds = guest_usage.read_pressure_seconds(cgroups)
    if waiting_seconds is not None:
        yield Sample(name='nova_prio_partition_cpu_waiting_seconds_total',
                     label_values=(priority,), value=waiting_seconds)
    for path in cgroups:
        weight = guest_usage.read_weight(hierarchy, path)
        if weight is not None:
            yield Sample(name='nova_prio_partition_cpu_weight',
                         label_values=(path.name,), value=weight)
    guests = []
    for path in cgroups:
        guests += guest_usage.list_guests(path)
    yield Sample(name='nova_prio_partition_guests', label_values=(priority,),
                 value=len(guests))
    for guest in guests:
        delays_seconds = [
            guest_usage.read_delay_seconds(proc / thread / 'schedstat')
            for thread in guest_usage.list_vcpu_threads(guest)]
        # Prometheus takes a smaller sum for a restart of the counter.
        if None not in delays_seconds:
            name = guest_usage.get_guest_name(guest)
            yield Sample(name='nova_prio_guest_delay_seconds_total',
                         label_values=(priority, name),
                         value=sum(delays_seconds))
