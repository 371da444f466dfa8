# SPDX-License-Identifier: Apache-2.0

"""Whether libvirt can start guests in the partitions of both priorities.

Without systemd and machined libvirt makes no partition but its own, and a
guest in one that is missing does not start. nova-compute may run where it
does not see the cgroups of the host: only libvirt knows, so libvirt is asked
to start a small guest in each partition, a probe.
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

#: How the names of the guests begin that are started as probes.
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

    ``problem`` says in one sentence why they are of no use, or is None.
    """

    def __init__(self, host):
        """Ask nothing yet.

        :param host: nova.virt.libvirt.host.Host
        """
        self._host = host
        self._lock = threading.Lock()
        self._probes = {}
        self._errors = {}
        self._failed_at = -math.inf
        self._logged = set()
        self.problem = None

    @property
    def needs_probe(self):
        """Whether the next update of the host must probe the partitions."""
        return self.problem is not None or any(
            probe.started_at < self._failed_at
            for probe in list(self._probes.values()))

    def record_failed_start(self):
        """Accept no earlier success: a guest with a priority did not start."""
        self._failed_at = time.monotonic()

    def probe(self, cpus):
        """Find out whether a guest starts in each of them.

        Callers share probes, of which at most one runs for each partition. A
        success is accepted for TRUST_SECONDS, unless a guest with a priority
        failed to start since then. All callers wait at the same time, until
        WAIT_SECONDS after the start of the probe at most.

        A probe that still runs may have started before the caller asked. To
        share it is safe:

        * If it fails, the partition is refused.
        * If it succeeds, libvirt had its guest in the partition after the
          caller asked.
        * If it goes on, its guest holds the partition: the kernel removes no
          cgroup with another one in it. It looks the same if libvirtd hangs
          before that; no other guest starts then either.

        :param cpus: dict, priority -> set of the CPU numbers on which the
            guest is started
        """
        with self._lock:
            probes = [self._shared(priority, cpus[priority])
                      for priority in guest_xml.PARTITIONS]
        for probe in probes:
            # Also until its guest has stopped: a nova-compute that is new in
            # the database does not start if libvirt has guests.
            probe.join(max(
                0, probe.started_at + WAIT_SECONDS - time.monotonic()))
            if not self._is_trusted(probe):
                self._record(probe)

    def _shared(self, priority, cpus):
        """Return the probe of a partition that counts now, maybe a new one."""
        probe = self._probes.get(priority)
        if probe is None or not (
                probe.is_starting or self._is_trusted(probe)):
            probe = _Probe(self._host, priority, cpus, self._record, probe)
            self._probes[priority] = probe
            probe.start()
        return probe

    def _is_trusted(self, probe):
        return (probe.error is None and probe.proved_at is not None and
                probe.proved_at > self._failed_at and
                time.monotonic() - probe.proved_at < TRUST_SECONDS)

    def _record(self, probe):
        """Take the result of a probe over, unless a later one counts.

        The thread of a probe does so when it ends, so that callers find the
        result. They do so if the probe takes too long.
        """
        with self._lock:
            if self._probes[probe.priority] is not probe:
                return
            self._errors[probe.priority] = probe.error
            self._log(probe)
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

    def _log(self, probe):
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
                'the partition %(partition)s on CPUs %(cpus)s: guests of more '
                'weight keep them busy, and low-priority guests start late; '
                'set [nova_prio] low_emulator_set, or see nova-prio-host '
                '--low-weight.',
                {'seconds': WAIT_SECONDS, 'partition': partition,
                 'cpus': hardware.format_cpu_spec(probe.cpus)})


class _Probe(threading.Thread):
    """Starts a guest and stops it, however long that takes.

    ``started_at`` and ``proved_at`` are times of the monotonic clock: when it
    began, and when libvirt had started the guest, None before. ``error`` is
    the exception that it failed with, or None. ``is_late`` tells whether a
    caller waited in vain.
    """

    def __init__(self, host, priority, cpus, done, predecessor):
        """Start nothing yet.

        :param host: nova.virt.libvirt.host.Host
        :param priority: 'high' or 'low'
        :param cpus: set of CPU numbers
        :param done: called with this probe when it ends
        :param predecessor: _Probe whose guest may not have stopped yet, or
            None
        """
        super().__init__(name=PROBE_PREFIX + priority, daemon=True)
        self.priority = priority
        self.cpus = cpus
        self.error = None
        self.is_late = False
        self.started_at = time.monotonic()
        self.proved_at = None
        self._host = host
        self._done = done
        self._predecessor = predecessor
        # The same one each time.
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, self.name))

    @property
    def is_starting(self):
        """Whether libvirt has not started the guest yet."""
        return self.proved_at is None and self.is_alive()

    def run(self):
        """Start and stop the guest, then call ``done`` with this probe."""
        try:
            if self._predecessor is not None:
                self._predecessor.join()
                self._predecessor = None
            self._try()
        except Exception as error:
            self.error = error
        self._done(self)

    def _try(self):
        connection = self._host.get_connection()
        self._end_left(connection)
        guest = connection.createXML(
            guest_xml.apply_priority(
                _PROBE_XML % (CONF.libvirt.virt_type, self.name, self._uuid,
                              hardware.format_cpu_spec(self.cpus)),
                self.priority),
            libvirt_host.libvirt.VIR_DOMAIN_START_PAUSED)
        self.proved_at = time.monotonic()
        guest.destroy()

    def _end_left(self, connection):
        """End one that stayed, since libvirtd or nova-compute went away."""
        try:
            connection.lookupByUUIDString(self._uuid).destroy()
        except libvirt_host.libvirt.libvirtError as error:
            if (error.get_error_code() !=
                    libvirt_host.libvirt.VIR_ERR_NO_DOMAIN):
                raise
