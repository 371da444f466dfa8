# SPDX-License-Identifier: Apache-2.0

"""Measure the low supply of this host, the CPU time for low-priority guests.

:mod:`nova_prio.model.low_supply` defines the low supply, and explains the
readings and their average. The sources also work in a container without the
cgroups and the processes of the host: /proc/stat, and one call of libvirt for
all guests.

A recount is one run of the periodic task of nova-compute, which counts the
resources of the host.
"""

import time

from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_prio.model import cpu_capacity
from nova_prio.model import low_supply
from nova_prio.virt.libvirt import guest_xml

LOG = logging.getLogger(__name__)

_STAT_FILE = '/proc/stat'
_NANOSECONDS = 1e9


class SupplyMeter:
    """Measures the low supply of a host.

    :param host: nova.virt.libvirt.host.Host
    """

    def __init__(self, host):
        """Have measured nothing yet."""
        self._host = host
        self._average = low_supply.Average()
        self._has_failed = False

    @property
    def reported(self):
        """The low supply to report, a ``LowSupply``; None if unknown."""
        return self._average.reported

    def measure(self, floating, guests):
        """Measure the low supply, unless the last measurement is recent.

        The low supply is the CPU time that low-priority guests can get.

        Call this before the recount, which is the periodic count of the host's
        resources, takes the lock of the tracker: libvirt may hang. This makes
        one call of libvirt, or none without low-priority guests, and waits for
        no job of a guest.

        If libvirt or /proc/stat fails, warn of the first of several failures
        in a row. After some minutes of failures, the low supply is unknown.

        :param floating: set of the CPUs where low-priority guests may run
        :param guests: list of ``guest_xml.Guest``, all of this host
        :raises: any error that no operator can correct
        """
        now = time.monotonic()
        if not floating or not self._average.is_due(now):
            return
        low_uuids = {
            guest.uuid for guest in guests
            if guest.partition == guest_xml.PARTITIONS[cpu_capacity.LOW]}
        try:
            cpus = _read_cpus(floating)
            vcpus = {}
            if low_uuids:
                vcpus = self._read_vcpus(low_uuids)
            # The counters may have taken long to read.
            self._average.add(low_supply.Reading(
                seconds=time.monotonic(), cpus=cpus, vcpus=vcpus))
            self._has_failed = False
        except (OSError, ValueError,
                libvirt_host.libvirt.libvirtError) as error:
            self._average.expire(now)
            if not self._has_failed:
                LOG.warning(
                    'Cannot measure the CPU time that low-priority guests can '
                    'get on this host: %s. The scheduler then takes the mean '
                    'of the other hosts. See whether libvirtd answers "virsh '
                    'domstats --vcpu", and whether /proc/stat shows the CPUs '
                    'of the host.', error)
            self._has_failed = True
        except Exception:
            self._average.expire(now)
            raise

    def _read_vcpus(self, low_uuids):
        """Return the CPU times of the vCPUs of low-priority guests.

        :param low_uuids: set of the UUIDs of these guests
        :returns: dict, (UUID, ID of the domain, number of the vCPU) ->
            ``low_supply.VCPUTime``
        :raises libvirt.libvirtError: if libvirt does not answer
        """
        libvirt = libvirt_host.libvirt
        found = self._host.get_connection().getAllDomainStats(
            libvirt.VIR_DOMAIN_STATS_VCPU,
            libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE |
            libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
        vcpus = {}
        for domain, stats in found:
            # libvirt-python knows UUID and ID without a call of libvirt. A
            # domain gets another ID with each start.
            uuid = domain.UUIDString()
            if uuid not in low_uuids:
                continue
            for number, times in _parse_vcpus(stats):
                vcpus[uuid, domain.ID(), number] = times
        return vcpus


def _parse_vcpus(stats):
    """Yield (number of a vCPU, ``low_supply.VCPUTime``) of a domain.

    :param stats: dict of libvirt, such as 'vcpu.0.time' -> nanoseconds; it
        lacks vCPUs that are offline, and may lack the delays
    """
    for name, run in stats.items():
        # Only "vcpu.NUMBER.time" is the time that a vCPU has run, and
        # "vcpu.NUMBER.delay" the time that it has waited for a CPU.
        kind, _, rest = name.partition('.')
        number, _, what = rest.partition('.')
        if kind == 'vcpu' and what == 'time':
            wait = stats.get('vcpu.%s.delay' % number)
            if wait is not None:
                wait /= _NANOSECONDS
            yield number, low_supply.VCPUTime(
                run=run / _NANOSECONDS, wait=wait)


def _read_cpus(cpus):
    """Return the times of CPUs, as the kernel counts them in ticks.

    :param cpus: set of the numbers of the CPUs where low-priority guests may
        run, which are "these guests" in the text of the error
    :returns: dict, number of a CPU -> its ``low_supply.Ticks``. CPUs that are
        offline are missing.
    :raises OSError: if the file cannot be read
    :raises ValueError: if it shows none of the CPUs
    """
    with open(_STAT_FILE, encoding='ascii') as file:
        text = file.read()
    found = {}
    for line in text.splitlines():
        # The line of CPU 3 is "cpu3 TICKS TICKS ...".
        name, *values = line.split()
        number = name.removeprefix('cpu')
        if not name.startswith('cpu') or not number.isdecimal():
            continue
        if int(number) in cpus:
            # user nice system idle iowait irq softirq steal; the times of
            # guests follow, and are part of the user time.
            ticks = [int(value) for value in values[:8]]
            _, _, _, idle, iowait, *_ = ticks
            found[int(number)] = low_supply.Ticks(
                idle=idle + iowait, total=sum(ticks))
    if not found:
        raise ValueError('%s shows none of the CPUs where these guests may run'
                         % _STAT_FILE)
    return found
