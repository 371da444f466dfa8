# SPDX-License-Identifier: Apache-2.0

"""Whether libvirt can start guests in the partitions of both priorities.

Without systemd and machined, libvirt makes no partition but its own. A guest
in a missing partition does not start. nova-compute may run in a container,
where the cgroups of the host cannot be seen: only libvirt knows whether they
exist. A probe is a small guest that libvirt must start in a partition.
"""

import math
import threading
import time
import uuid

import nova.conf
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_prio.virt.libvirt import guest_xml

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

#: Seconds that callers wait for a probe, from its start. libvirt puts the
#: guest into its cgroups first, and fails at once if it cannot.
WAIT_SECONDS = 10

#: Seconds for which the success of a probe is accepted instead of a new one.
TRUST_SECONDS = 30

PROBE_PREFIX = 'nova-prio-probe-'

# A guest without devices, which never runs.
_PROBE_XML = '''<domain type="%s">
  <name>%s</name>
  <uuid>%s</uuid>
  <memory unit="MiB">16</memory>
  <vcpu cpuset="%s">1</vcpu>
  <os><type>hvm</type></os>
</domain>'''


class Partitions:
    """The partitions of a host.

    ``problem`` is a sentence if libvirt cannot start guests in one of them,
    else None.

    :param host: nova.virt.libvirt.host.Host
    """

    def __init__(self, host):
        self.problem = None
        self._host = host
        self._lock = threading.Lock()
        # Priority -> the latest _Probe, and the error of the latest result.
        self._probes = {}
        self._errors = {}
        self._failed_at = -math.inf
        # The types of the unexpected errors that are in the log.
        self._logged = set()

    @property
    def needs_probe(self):
        """Whether the next update of the host must probe the partitions."""
        return self.problem is not None or any(
            probe.started_at < self._failed_at
            for probe in list(self._probes.values()))

    def record_failed_start(self):
        """Distrust earlier probes: a guest with a priority did not start."""
        self._failed_at = time.monotonic()

    def probe(self, cpus):
        """Update ``problem``: let libvirt start a guest in each partition.

        Callers share probes, of which at most one runs for each partition. A
        success is accepted for TRUST_SECONDS, unless a guest with a priority
        failed to start since then. All callers wait at the same time, until
        WAIT_SECONDS after the start of the probe at most.

        A caller may share a probe that started before the call. If the probe
        succeeds, libvirt had its guest in the partition after the call. If it
        takes longer, its guest holds the partition: the kernel removes no
        cgroup that contains another one. If libvirtd hangs before that, no
        other guest starts either.

        :param cpus: dict, priority -> set of CPU numbers for the guest
        """
        with self._lock:
            probes = [self._get_valid_probe(priority, cpus[priority])
                      for priority in guest_xml.PARTITIONS]
        for probe in probes:
            # Wait also until the guest has stopped: a nova-compute that is
            # new in the database does not start if libvirt has guests.
            probe.join(max(
                0, probe.started_at + WAIT_SECONDS - time.monotonic()))
            if not self._is_trusted(probe):
                self._record_result(probe)

    def _get_valid_probe(self, priority, cpus):
        """Return the probe of a partition, a new one if none is valid."""
        probe = self._probes.get(priority)
        if probe is None or not (
                probe.is_starting or self._is_trusted(probe)):
            probe = _Probe(self._host, priority, cpus, self._record_result,
                           probe)
            self._probes[priority] = probe
            probe.start()
        return probe

    def _is_trusted(self, probe):
        return probe.error is None and probe.succeeded_at > max(
            self._failed_at, time.monotonic() - TRUST_SECONDS)

    def _record_result(self, probe):
        """Update ``problem`` from a probe, unless a later probe exists.

        The thread of the probe calls this at its end. A caller of ``probe``
        calls it if the probe takes too long.
        """
        with self._lock:
            if self._probes[probe.priority] is not probe:
                return
            self._errors[probe.priority] = probe.error
            self._log_result(probe)
            problem = next((
                'libvirt cannot start a guest in the partition %s (%s); run '
                'nova-prio-host prepare on the host'
                % (partition, str(error) or type(error).__name__)
                for priority, partition in guest_xml.PARTITIONS.items()
                if (error := self._errors.get(priority)) is not None), None)
            if problem and problem != self.problem:
                LOG.error('No priority instance is admitted: %s.', problem)
            elif self.problem and not problem:
                LOG.info('Priority instances are admitted again: libvirt '
                         'starts guests in their partitions.')
            self.problem = problem

    def _log_result(self, probe):
        """Log an unexpected error once per type, a slow probe once."""
        partition = guest_xml.PARTITIONS[probe.priority]
        if probe.error is not None:
            if (type(probe.error) not in self._logged and not isinstance(
                    probe.error, libvirt_host.libvirt.libvirtError)):
                self._logged.add(type(probe.error))
                LOG.error('The probe of the partition %s failed.', partition,
                          exc_info=probe.error)
        elif probe.is_starting and not probe.is_late:
            probe.is_late = True
            LOG.warning(
                'libvirt takes more than %(seconds)d s to start a guest in '
                'the partition %(partition)s on CPUs %(cpus)s: guests with '
                'more weight keep these CPUs busy, and low-priority guests '
                'start late. Set [nova_prio] low_emulator_set, or see '
                'nova-prio-host --low-weight.',
                {'seconds': WAIT_SECONDS, 'partition': partition,
                 'cpus': hardware.format_cpu_spec(probe.cpus)})


class _Probe(threading.Thread):
    """Starts a guest and stops it, however long that takes.

    ``started_at`` and ``succeeded_at`` are times of the monotonic clock: when
    the thread was made, and when libvirt had started the guest, -inf before.
    ``error`` is the exception of a failed probe, or None. ``is_late`` tells
    whether the log has a warning of this probe. The probe waits until the
    guest of its ``predecessor`` has stopped, and at its end calls ``on_end``
    with itself.
    """

    def __init__(self, host, priority, cpus, on_end, predecessor):
        super().__init__(name=PROBE_PREFIX + priority, daemon=True)
        self.priority = priority
        self.cpus = cpus
        self.error = None
        self.is_late = False
        self.started_at = time.monotonic()
        self.succeeded_at = -math.inf
        self._host = host
        self._on_end = on_end
        self._predecessor = predecessor
        # Every probe of a partition has the same UUID.
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, self.name))

    @property
    def is_starting(self):
        """Whether libvirt has not started the guest yet."""
        return self.succeeded_at == -math.inf and self.is_alive()

    def run(self):
        """Start and stop the guest, then call ``on_end``."""
        try:
            if self._predecessor is not None:
                self._predecessor.join()
                self._predecessor = None
            self._start_and_stop_guest()
        except Exception as error:
            self.error = error
        self._on_end(self)

    def _start_and_stop_guest(self):
        connection = self._host.get_connection()
        # A guest stays if libvirtd or nova-compute stopped during a probe.
        try:
            connection.lookupByUUIDString(self._uuid).destroy()
        except libvirt_host.libvirt.libvirtError as error:
            if not is_missing_domain(error):
                raise
        guest = connection.createXML(
            guest_xml.apply_priority(
                _PROBE_XML % (CONF.libvirt.virt_type, self.name, self._uuid,
                              hardware.format_cpu_spec(self.cpus)),
                self.priority),
            libvirt_host.libvirt.VIR_DOMAIN_START_PAUSED)
        self.succeeded_at = time.monotonic()
        guest.destroy()


def is_missing_domain(error):
    """Return whether a libvirtError says that the domain does not exist."""
    return (error.get_error_code() ==
            libvirt_host.libvirt.VIR_ERR_NO_DOMAIN)
