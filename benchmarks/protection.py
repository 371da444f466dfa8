# SPDX-License-Identifier: Apache-2.0

"""The effect of the partitions: ``python -m benchmarks.protection``, as root.

The benchmark runs real guests with libvirtd and QEMU. Each round measures
these figures for each setting of the low partition:

* the CPU time of a busy high-priority guest beside a busy low-priority guest
  on the same CPU
* the wake-up delay of a task in the high partition
* the time to start and to stop a low-priority guest while all dedicated CPUs
  are busy, and also while the shared CPUs are busy, with and without
  ``low_emulator_set``
* the CPU time of a service of the host beside a high-priority guest

The command writes protection.json.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from lxml import etree

from benchmarks import protection_tables
from benchmarks import tables
from nova_prio.model import cpu_capacity
from tests.libvirt import boot_sector
from tests.libvirt import daemon
from tests.libvirt import guests

UNPROTECTED = 'unprotected'
HIGH_PARTITION = 'high_prio_machine.partition'


@dataclasses.dataclass(frozen=True)
class Size:
    """The extent of a run.

    ``settings`` are settings of the low partition. ``high_weights`` are
    weights of the high partition for the measurement of a service.
    ``seconds`` is the duration of each measurement. ``operation_seconds`` is
    the maximum duration of an operation on a low-priority guest of a busy
    host.
    """

    rounds: int
    seconds: float
    operation_seconds: float
    settings: tuple
    high_weights: tuple


FULL = Size(3, 5, 30, tuple(protection_tables.SETTINGS),
            ('100', '1000', '10000'))
#: A run of less than a minute, which only shows that all parts work.
QUICK = Size(1, 0.3, 3, (UNPROTECTED, protection_tables.DEFAULT), ('100',))

# Print the delays of many wake-ups, in microseconds.
WAKE_UP = '''
import sys, time
delays = []
for _ in range(int(sys.argv[1])):
    start = time.monotonic_ns()
    time.sleep(0.001)
    delays.append((time.monotonic_ns() - start) // 1000 - 1000)
print(*sorted(delays))
'''

# Keep a CPU busy, and print the fraction of the CPU time that the task got.
SPIN = '''
import sys, time
start = time.monotonic()
while time.monotonic() < start + float(sys.argv[1]):
    pass
print(time.process_time() / (time.monotonic() - start))
'''


class Bench:
    """A host with a dedicated and a shared CPU, and the measurements on it."""

    def __init__(self, hosts, images, size, dedicated, shared,
                 low_emulator=None):
        """Prepare nothing yet.

        :param hosts: list of two ``daemon.Host``; guests migrate from the
            first to the second
        :param images: dict, 'busy' and 'idle' -> path
        :param size: Size
        :param dedicated: number of the dedicated CPU
        :param shared: number of the shared CPU
        :param low_emulator: number of the CPU in low_emulator_set, or None
        """
        self.host, self.other = hosts
        self.images = images
        self.seconds = size.seconds
        self.operation_seconds = size.operation_seconds
        self.shared = shared
        self.dedicated = dedicated
        self.low_emulator = None if low_emulator is None else {low_emulator}
        self.cpus = cpu_capacity.HostCPUs(
            dedicated=frozenset([dedicated]), shared=frozenset([shared]),
            ratio=cpu_capacity.parse_ratio(4), mix=True)

    def prepare(self, low='idle', high='100'):
        """Prepare the partitions of both hosts with these weights."""
        for host in self.host, self.other:
            host.prepare(low, high)

    @contextlib.contextmanager
    def guest(self, name, priority, cpu, is_protected=True):
        """Run a guest that keeps one CPU busy; yield the Guest.

        :param is_protected: whether the guest is in the partition of its
            priority
        """
        xml = guests.xml(name, self.images['busy'], self.cpus,
                         priority if is_protected else None,
                         low_emulator=self.low_emulator)
        domain = etree.fromstring(xml)
        cputune = domain.find('cputune')
        for pin in cputune.findall('vcpupin'):
            cputune.remove(pin)
        etree.SubElement(cputune, 'vcpupin', vcpu='0', cpuset=str(cpu))
        self.create(etree.tostring(domain, encoding='unicode'))
        try:
            yield guests.Guest(self.host, name)
        finally:
            self.host.virsh('destroy', name, check=False)

    def create(self, xml, timeout=daemon.TIMEOUT_SECONDS):
        """Start a guest from its domain XML."""
        with tempfile.NamedTemporaryFile('w', suffix='.xml') as file:
            file.write(xml)
            file.flush()
            self.host.virsh('create', file.name, timeout=timeout)

    def busy_guest(self, priority, is_protected=True):
        """Run a guest that keeps the dedicated CPU busy."""
        return self.guest(priority, priority, self.dedicated, is_protected)

    def busy_ordinary_guest(self):
        """Run an ordinary guest that keeps the shared CPU busy.

        If the shared CPU is also the dedicated CPU, run none: a high-priority
        guest keeps this CPU busy already, and its partition has the same
        weight.
        """
        if self.shared == self.dedicated:
            return contextlib.nullcontext()
        return self.guest('ordinary', None, self.shared)

    def measure_share(self, guest):
        """Return the fraction of a CPU that the vCPU of a guest gets."""
        guests.wait_until_busy(guest)
        return _share_during(guest, lambda: time.sleep(self.seconds))[0]

    def run_task(self, script, argument, partition=None):
        """Run a script on the dedicated CPU; return its output as floats.

        :param partition: partition in which the script runs; or None for the
            root cgroup of the host, with the services of the host
        """
        process = subprocess.Popen(
            [sys.executable, '-I', '-c',
             'import sys; sys.stdin.readline(); exec(sys.stdin.read())',
             str(argument)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        group = self._cpu_cgroup(partition)
        if partition:
            group /= 'task'
            group.mkdir()
        try:
            (group / 'cgroup.procs').write_text(str(process.pid))
            os.sched_setaffinity(process.pid, {self.dedicated})
            out, _ = process.communicate(
                '\n' + script, timeout=10 * daemon.TIMEOUT_SECONDS)
        finally:
            if partition:
                daemon.wait_for(lambda: _remove(group),
                                'The cgroup of the task is in use.')
        return [float(word) for word in out.split()]

    def _cpu_cgroup(self, partition):
        """Return the directory with the CPU weight of a partition."""
        root = self.host.path('/sys/fs/cgroup')
        top = root / 'cpu' if (root / 'cpu').is_dir() else root
        if not partition:
            return top if top.name == 'cpu' else top / daemon.DAEMONS
        return top / partition

    def measure_wake_up(self, partition):
        """Return the wake-up delay of a task: median and p99, microseconds."""
        delays = self.run_task(WAKE_UP, int(self.seconds * 900), partition)
        return {'median': statistics.median(delays),
                'p99': delays[len(delays) * 99 // 100]}

    def measure_operations(self, seconds):
        """Return dict, operation on a low-priority guest -> seconds.

        The value is None if the operation took too long and was ended.

        :param seconds: maximum of each operation
        """
        xml = guests.xml('low-op', self.images['idle'], self.cpus, 'low',
                         low_emulator=self.low_emulator)
        found = {}
        steps = (
            ('start', lambda: self.create(xml, seconds)),
            ('answer', lambda: self.host.virsh(
                'qemu-monitor-command', 'low-op',
                '{"execute": "query-status"}', timeout=seconds)),
            ('reboot', lambda: self.host.virsh(
                'reset', 'low-op', timeout=seconds)),
            ('migrate', lambda: self.host.virsh(
                'migrate', '--live', 'low-op', self.other.uri,
                'tcp://127.0.0.1', timeout=seconds)),
        )
        try:
            for name, step in steps:
                found[name] = _time(step)
                if found[name] is None:
                    return found
            self.other.virsh('destroy', 'low-op')
            self.create(xml)
            found['stop'] = _time(lambda: self.host.virsh(
                'destroy', 'low-op', timeout=seconds))
        finally:
            for host in self.host, self.other:
                host.virsh('destroy', 'low-op', check=False)
        return found


def create_benches(hosts, images, size):
    """Return the usual Bench, and a dict, name -> Bench of a crowded host.

    On a crowded host, each CPU on which a low-priority guest floats is busy
    with one other guest. low_emulator_set needs one more CPU. If this machine
    has only two CPUs, the crowded host has the same CPU in both sets.
    """
    free, dedicated, *others = sorted(os.sched_getaffinity(0))
    crowded = {'dedicated': dedicated, 'shared': [*others, dedicated][0]}
    return Bench(hosts, images, size, dedicated, free), {
        protection_tables.WITHOUT: Bench(hosts, images, size, **crowded),
        protection_tables.WITH: Bench(
            hosts, images, size, low_emulator=free, **crowded)}


def _share_during(guest, step):
    """Return (fraction of a CPU that a guest gets, result of a step)."""
    before, start = guest.vcpus[0].run_ns, time.monotonic_ns()
    result = step()
    return (guest.vcpus[0].run_ns - before) / (
        time.monotonic_ns() - start), result


def _time(step):
    """Return the seconds of a step, or None if it took too long."""
    start = time.monotonic()
    try:
        step()
    except subprocess.TimeoutExpired:
        return None
    return time.monotonic() - start


def _remove(group):
    """Remove a cgroup and return whether it succeeded."""
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def measure_crowded(crowded):
    """Return the figures of a crowded host: dict, WITH and WITHOUT -> dict.

    A share of the high-priority guest is relative to its share without
    low-priority guests.
    """
    found = {}
    for name, bench in crowded.items():
        with bench.busy_guest('high') as high, bench.busy_ordinary_guest():
            alone = bench.measure_share(high)
            meanwhile, of_bench = _share_during(
                high, lambda: bench.measure_operations(
                    bench.operation_seconds))
        # Start the low-priority guest first. It might not start later.
        with bench.busy_guest('low') as low:
            guests.wait_until_busy(low)
            with bench.busy_guest('high') as high, bench.busy_ordinary_guest():
                beside = bench.measure_share(high)
        found[name] = {**of_bench, 'share_meanwhile': meanwhile / alone,
                       'share_beside_low': beside / alone}
    return found


def measure(bench, crowded, size):
    """Return the figures of one round: dict, setting -> dict."""
    found = {'solo': {}}
    bench.prepare()
    with bench.busy_guest('high') as high:
        found['solo']['share'] = bench.measure_share(high)
    found['solo']['wake_up_us'] = bench.measure_wake_up(HIGH_PARTITION)
    # Every operation ends on an idle host, however slow the host is.
    found['solo']['operations'] = bench.measure_operations(
        daemon.TIMEOUT_SECONDS)
    for setting in size.settings:
        is_protected = setting != UNPROTECTED
        if is_protected:
            bench.prepare(low=setting)
        of_setting = found[setting] = {}
        with bench.busy_guest('low', is_protected) as low:
            guests.wait_until_busy(low)
            of_setting['wake_up_us'] = bench.measure_wake_up(
                HIGH_PARTITION if is_protected else 'machine')
            with bench.busy_guest('high', is_protected) as high:
                of_setting['share'] = bench.measure_share(high)
        if is_protected:
            with bench.busy_guest('high') as high:
                guests.wait_until_busy(high)
                of_setting['operations'] = bench.measure_operations(
                    bench.operation_seconds)
            of_setting[protection_tables.CROWDED] = measure_crowded(crowded)
    for weight in size.high_weights:
        bench.prepare(high=weight)
        with bench.busy_guest('high') as high:
            guests.wait_until_busy(high)
            share, = bench.run_task(SPIN, bench.seconds)
            found['high weight ' + weight] = {'service_share': share}
    return found


def median(rounds):
    """Return the median of each figure over all rounds."""
    if isinstance(rounds[0], dict):
        return {key: median([each.get(key) for each in rounds])
                for key in rounds[0]}
    if None in rounds:
        return None
    return statistics.median(rounds)


def main():
    """Measure, write the figures, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--seconds', type=float,
                        help='duration of each measurement of a busy guest')
    parser.add_argument(
        '--quick', action='store_true',
        help='run all parts in less than a minute: the figures mean nothing, '
        'and may miss a requirement')
    parser.add_argument('--output', type=pathlib.Path,
                        default=pathlib.Path('protection.json'))
    parser.add_argument('--tables', type=pathlib.Path, metavar='DIRECTORY',
                        help='also write the tables of the guide there')
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    size = dataclasses.replace(size, **{
        name: value for name in ('rounds', 'seconds')
        if (value := getattr(arguments, name)) is not None})
    if arguments.tables:
        arguments.tables.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(daemon.Host(name))
                 for name in ('bench1', 'bench2')]
        images = {}
        for name in 'busy', 'idle':
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            images[name] = boot_sector.build(
                getattr(boot_sector, name.upper()), directory)
        bench, crowded = create_benches(hosts, images, size)
        rounds = [measure(bench, crowded, size) for _ in range(size.rounds)]
    figures = median(rounds)
    arguments.output.write_text(json.dumps(figures, indent=1) + '\n')
    for table in (protection_tables.shares, protection_tables.operations,
                  protection_tables.beside_ordinary,
                  protection_tables.low_emulator_set,
                  protection_tables.services):
        print(tables.as_text(table(figures)), end='\n\n')
        if arguments.tables:
            tables.write(table(figures), arguments.tables / (
                table.__name__ + '.csv'))


if __name__ == '__main__':
    main()
