# SPDX-License-Identifier: Apache-2.0

"""The effect of LowSupplyWeigher: ``python -m benchmarks.low_supply``.

Run it as root.

Two hosts with libvirtd and QEMU have one CPU of this machine each, as the
dedicated and as the shared CPU. A high-priority guest is busy on one host, and
idle on the other. The code of nova-compute measures both hosts, and Nova's
weight handler places two busy low-priority guests of one vCPU, with and
without the weigher. The command writes the CPU time of each guest to
low_supply.json.

No service of Nova runs meanwhile. Nothing else should run on this machine.
"""

import argparse
import contextlib
import json
import os
import pathlib
import tempfile
import time
import types

import nova.conf
from nova.scheduler import weights
from nova.virt.libvirt import host as libvirt_host

from benchmarks import tables
from nova_prio.compat import hooks
from nova_prio.model import cpu_capacity
from nova_prio.scheduler.weights import low_supply_weigher
from nova_prio.scheduler.weights import priority_weighter
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import supply_meter
from tests.libvirt import boot_sector
from tests.libvirt import daemon
from tests.libvirt import guests
from tests.unit import nova_objects

CONF = nova.conf.CONF
#: Seconds between two readings of the counters.
INTERVAL_SECONDS = 15
LOW_GUESTS = 2
LOW = nova_objects.flavor(
    1, hw__cpu_priority='low', hw__cpu_policy='shared')


class Domain(str):
    """The name of a libvirt domain, in place of its UUID and its ID."""

    def UUIDString(self):
        """Return the name."""
        return str(self)

    def ID(self):
        """Return the same for all: no guest starts twice."""
        return 0


class Host:
    """A host with one CPU, and what the code of nova-compute measures there.

    ``low`` are the low-priority guests.
    """

    def __init__(self, host, cpu, emulator_cpus):
        """Measure nothing yet.

        :param host: daemon.Host
        :param cpu: number of the CPU
        :param emulator_cpus: set of the CPUs of the emulator threads of
            low-priority guests, which would not start on a busy CPU
        """
        self.host = host
        self.emulator_cpus = emulator_cpus
        self.cpus = cpu_capacity.HostCPUs(
            dedicated=frozenset([cpu]), shared=frozenset([cpu]),
            ratio=cpu_capacity.parse_ratio(4), mix=True)
        self.low = []
        self.meter = supply_meter.SupplyMeter(self)

    def get_connection(self):
        """Return this object, in place of a libvirt.virConnect."""
        return self

    def getAllDomainStats(self, stats, flags):
        """Return (Domain, dict of its statistics) pairs, as libvirt does."""
        found = []
        for line in self.host.virsh(
                'domstats', '--vcpu', '--list-active', '--nowait').split('\n'):
            line = line.strip()
            if line.startswith('Domain: '):
                found.append((Domain(line.partition("'")[2][:-1]), {}))
            elif '=' in line:
                name, _, value = line.partition('=')
                if value.isdecimal():
                    found[-1][1][name] = int(value)
        return found

    def measure(self):
        """Take a reading, as nova-compute does in a recount."""
        self.meter.measure(self.cpus.floating, [
            guest_xml.Guest(guest.name, guest.name,
                            guest_xml.PARTITIONS[cpu_capacity.LOW])
            for guest in self.low])

    def make_state(self):
        """Return the HostState of nova-scheduler."""
        return nova_objects.host_state(
            cpus=self.cpus, pinned=self.cpus.dedicated, low=len(self.low),
            low_supply=self.meter.reported)

    @contextlib.contextmanager
    def guest(self, name, image, priority):
        """Run a guest; yield the ``guests.Guest``."""
        xml = guests.xml(name, image, self.cpus, priority,
                         low_emulator=self.emulator_cpus)
        with tempfile.NamedTemporaryFile('w', suffix='.xml') as file:
            file.write(xml)
            file.flush()
            self.host.virsh('create', file.name)
        try:
            yield guests.Guest(self.host, name)
        finally:
            self.host.virsh('destroy', name, check=False)


def choose(hosts, multiplier):
    """Return the host that Nova's weight handler puts first.

    :param multiplier: of LowSupplyWeigher; that of PriorityWeighter is 1
    """
    CONF.set_override(
        'low_supply_weight_multiplier', multiplier, group='nova_prio')
    states = [host.make_state() for host in hosts]
    weighed = weights.HostWeightHandler().get_weighed_objects(
        [priority_weighter.PriorityWeighter(),
         low_supply_weigher.LowSupplyWeigher()],
        states, nova_objects.request_spec(LOW))
    return hosts[states.index(weighed[0].obj)]


def measure_shares(running, seconds):
    """Return the part of a CPU that each guest gets: dict, name -> part."""
    before = {guest.name: guest.vcpus[0].run_ns for guest in running}
    start = time.monotonic_ns()
    time.sleep(seconds)
    elapsed = time.monotonic_ns() - start
    return {guest.name: round(
        (guest.vcpus[0].run_ns - before[guest.name]) / elapsed, 4)
        for guest in running}


def measure(hosts, images, multiplier, seconds):
    """Return the figures with one multiplier of LowSupplyWeigher."""
    busy, idle = hosts
    for host in hosts:
        host.low.clear()
    with contextlib.ExitStack() as stack:
        high = stack.enter_context(busy.guest('high', images['busy'], 'high'))
        stack.enter_context(idle.guest('sleeper', images['idle'], 'high'))
        guests.wait_until_busy(high)
        alone = measure_shares([high], seconds)['high']
        for host in hosts:
            # Forget the low supply of the last round.
            host.meter = supply_meter.SupplyMeter(host)
            host.measure()
        time.sleep(INTERVAL_SECONDS)
        for host in hosts:
            host.measure()
        supplies = [host.meter.reported.cpus for host in hosts]
        for number in range(LOW_GUESTS):
            chosen = choose(hosts, multiplier)
            chosen.low.append(stack.enter_context(
                chosen.guest('low%d' % number, images['busy'], 'low')))
        # A starved guest takes long to boot: do not wait for it.
        time.sleep(seconds)
        low = busy.low + idle.low
        shares = measure_shares([high] + low, seconds)
        return {
            'multiplier': multiplier, 'supply_busy': supplies[0],
            'supply_idle': supplies[1], 'low_on_busy': len(busy.low),
            'high': round(shares['high'] / alone, 4),
            'worst_low': min(shares[guest.name] for guest in low)}


def make_table(figures):
    """Return the ``tables.Table`` of the figures."""
    rows = []
    for each in figures:
        rows.append((
            '%.1f' % each['multiplier'], '%.1f, %.1f' % (
                each['supply_busy'], each['supply_idle']),
            '%d' % each['low_on_busy'],
            '%.1f %%' % (100 * each['worst_low']),
            '%.1f %%' % (100 * each['high'])))
    return tables.Table(
        ('multiplier', 'low supply: busy, idle host',
         'low guests on the busy host', 'CPU time of the worst-off one',
         'CPU time of the high guest, of that alone'), rows)


def main():
    """Measure, write the figures, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--seconds', type=float, default=20,
                        help='duration of each measurement of the guests')
    parser.add_argument('--output', type=pathlib.Path,
                        default=pathlib.Path('low_supply.json'))
    arguments = parser.parse_args()
    hooks.register_options()
    # libvirt-python is not needed: virsh asks libvirt.
    libvirt_host.libvirt = types.SimpleNamespace(
        libvirtError=daemon.subprocess.CalledProcessError,
        VIR_DOMAIN_STATS_VCPU=8, VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE=1,
        VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT=1 << 29)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with contextlib.ExitStack() as stack:
        images = {}
        for name in 'busy', 'idle':
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            images[name] = boot_sector.build(
                getattr(boot_sector, name.upper()), directory)
        hosts = []
        for name, cpu in zip(('supply1', 'supply2'), cpus):
            host = stack.enter_context(daemon.Host(name))
            host.prepare(low_weight='idle')
            hosts.append(Host(host, cpu, set(cpus)))
        figures = [measure(hosts, images, multiplier, arguments.seconds)
                   for multiplier in (0.0, 1.0, 4.0)]
    arguments.output.write_text(json.dumps(figures, indent=1) + '\n')
    print(tables.as_text(make_table(figures)))


if __name__ == '__main__':
    main()
