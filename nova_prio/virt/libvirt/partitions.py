# SPDX-License-Identifier: Apache-2.0

"""Whether libvirt can start guests in the partitions of both priorities.

A partition is the cgroup of all guests of one priority. Without systemd and
machined, libvirt does not make these cgroups, and a guest does not start if
its cgroup is missing. nova-compute may run in a container without the cgroups
of the host: only libvirt knows whether they exist. A probe is a small guest
that libvirt must start in a partition.
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

#: Seconds from the start of a probe that callers wait for it. libvirt first
#: puts the guest into its cgroup, and fails at once if the cgroup is missing.
WAIT_SECONDS = 10

#: Seconds after the success of a probe in which no new probe is necessary.
TRUST_SECONDS = 30

PROBE_PREFIX = 'nova-prio-probe-'

#: Priority -> UUID of the guests of its probes. Each probe of a partition has
#: the same, so that it finds the guest that an interrupted probe has left.
PROBE_UUIDS = {
    priority: str(uuid.uuid5(uuid.NAMESPACE_OID, PROBE_PREFIX + priority))
    for priority in guest_xml.PARTITIONS}

# A guest without devices, which libvirt starts paused.
_PROBE_XML = '''<domain type="%s">
  <name>%s</name>
  <uuid>%s</uuid>
  <memory unit="MiB">16</memory>
  <vcpu cpuset="%s">1</vcpu>
  <os><type>hvm</type></os>
</domain>'''


class Partitions:
    """The partitions of a host.

    ``problem`` is a sentence if libvirt cannot start guests in one, else ''.

    :param host: nova.virt.libvirt.host.Host
    """

    def __init__(self, host):
        """Know no problem yet: no partition was probed.

        A partition is the cgroup of all guests of one priority. A probe lets
        libvirt start a test guest there. ``problem`` is a sentence if libvirt
        cannot, else ''.
        """
        self.problem = ''
        self._host = host
        self._lock = threading.Lock()
        self._probes = {}  # priority -> latest _Probe
        # priority -> exception of the latest probe, None after a success
        self._errors = {}
        # Time when a guest with a priority last failed to start.
        self._failed_at = -math.inf
        self._logged = set()  # types of the unexpected errors in the log

    @property
    def needs_probe(self):
        """Whether the next update of the host must probe the partitions.

        It must after a failed probe, and if a guest with a priority failed to
        start after the last probe had begun.
        """
        # Another thread may add a probe: copy the dict.
        return bool(self.problem) or any(
            probe.started_at < self._failed_at
            for probe in list(self._probes.values()))

    def record_failed_start(self):
        """Require new probes: a guest with a priority failed to start.

        A probe lets libvirt start a test guest in a partition.
        """
        self._failed_at = time.monotonic()

    def probe(self, cpus):
        """Let libvirt start a guest in each partition; update ``problem``.

        A partition is the cgroup of all guests of one priority.

        Simultaneous callers share one probe for each partition, and wait for
        it until WAIT_SECONDS after its start. No new probe starts in the
        TRUST_SECONDS after a success, unless a guest with a priority failed to
        start since then.

        A caller may share a probe that started before the call. A probe that
        takes longer than callers wait is no problem of the partition: its
        guest is already there, or libvirtd hangs for all guests.

        :param cpus: dict, priority -> set of CPU numbers for the guest of the
            probe
        """
        with self._lock:
            probes = [self._get_or_start_probe(priority, cpus[priority])
                      for priority in guest_xml.PARTITIONS]
        for probe in probes:
            remaining = probe.started_at + WAIT_SECONDS - time.monotonic()
            probe.join(max(0, remaining))
            # The thread of a probe records its result at its end. One that
            # still runs counts as a success, as the docstring says: record
            # that now, so that no older error stays.
            if probe.is_alive():
                self._record_result(probe)

    def _get_or_start_probe(self, priority, cpus):
        """Return a starting or trusted probe of a partition, or start one.

        A probe is a thread in which libvirt starts a test guest in the
        partition, which is the cgroup of all guests of one priority. It is
        trusted for some time after its success: no new one is necessary then.
        A new one first waits until the guest of the latest one has stopped:
        both guests have the same UUID. Call this with the lock.

        :param priority: key of ``guest_xml.PARTITIONS``
        :param cpus: set of CPU numbers for the guest of the probe
        """
        latest = self._probes.get(priority)
        if latest and (latest.is_starting or self._is_trusted(latest)):
            return latest
        probe = _Probe(
            host=self._host, priority=priority, cpus=cpus,
            on_end=self._record_result, predecessor=latest)
        self._probes[priority] = probe
        probe.start()
        return probe

    def _is_trusted(self, probe):
        """Return whether a probe succeeded, and no newer one is necessary.

        One is necessary TRUST_SECONDS later, or if a guest with a priority
        has failed to start since.
        """
        return probe.error is None and probe.succeeded_at > max(
            self._failed_at, time.monotonic() - TRUST_SECONDS)

    def _record_result(self, probe):
        """Update ``problem`` from a probe, unless a later probe exists.

        A probe lets libvirt start a test guest in a partition, which is the
        cgroup of all guests of one priority. ``problem`` is a sentence while a
        partition has an error, and '' otherwise.

        The thread of the probe calls this at its end. A caller of ``probe``
        calls this if the probe takes longer than WAIT_SECONDS. It has no error
        then, and counts as a success: if the cgroup were missing, libvirt
        would have failed at once.
        """
        with self._lock:
            if self._probes[probe.priority] is not probe:
                return
            self._errors[probe.priority] = probe.error
            self._log_result(probe)
            problem = ''
            # Name the first partition with an error.
            for priority, partition in guest_xml.PARTITIONS.items():
                error = self._errors.get(priority)
                if error is not None and not problem:
                    problem = (
                        'libvirt cannot start a guest in the partition %s '
                        '(%s); run nova-prio-host prepare on the host'
                        % (partition, str(error) or type(error).__name__))
            if problem and problem != self.problem:
                LOG.error('No priority instance is admitted: %s.', problem)
            elif self.problem and not problem:
                LOG.info('Priority instances are admitted again: libvirt '
                         'starts guests in their partitions.')
            self.problem = problem

    def _log_result(self, probe):
        """Log an unexpected error once per type, and a slow probe once.

        A probe lets libvirt start a test guest in a partition, the cgroup of
        all guests of one priority.

        An error of libvirt is expected: the caller logs it.
        """
        partition = guest_xml.PARTITIONS[probe.priority]
        if probe.error is not None:
            if (type(probe.error) not in self._logged and not isinstance(
                    probe.error, libvirt_host.libvirt.libvirtError)):
                self._logged.add(type(probe.error))
                LOG.error('The probe of the partition %s failed.', partition,
                          exc_info=probe.error)
        # is_late tells that this warning was written.
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
    """A thread that starts a guest and stops it, however long that takes.

    ``started_at`` and ``succeeded_at`` are times of the monotonic clock: when
    the thread was made, and when libvirt had started the guest, -inf before.
    ``error`` is the exception of a failed probe, or None. ``is_late`` tells
    whether the log has a warning of this probe.

    :param host: nova.virt.libvirt.host.Host
    :param cpus: set of CPU numbers for the guest
    :param on_end: function that takes this probe, called at its end
    :param predecessor: earlier _Probe of the partition, or None; its guest
        must stop first
    """

    def __init__(self, host, priority, cpus, on_end, predecessor):
        """Make the thread; the class describes the parameters."""
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
        # libvirt starts no second guest with this UUID: ``run`` first waits
        # for the predecessor.
        self._uuid = PROBE_UUIDS[priority]

    @property
    def is_starting(self):
        """Whether libvirt has not started the guest yet."""
        return self.succeeded_at == -math.inf and self.is_alive()

    def run(self):
        """Start and stop the guest, then call ``on_end``.

        An error is not raised, but kept in ``error``.
        """
        try:
            # The guest of the earlier probe has the same UUID: wait until it
            # has stopped.
            if self._predecessor is not None:
                self._predecessor.join()
                self._predecessor = None  # free the memory of that probe
            self._start_and_stop_guest()
        except Exception as error:
            self.error = error
        self._on_end(self)

    def _start_and_stop_guest(self):
        """Start the guest in its partition, and stop it.

        A partition is the cgroup of all guests of one priority.

        :raises: the errors of libvirt, if it cannot start the guest
        """
        connection = self._host.get_connection()
        # If libvirtd or nova-compute stopped during a probe, its guest exists:
        # destroy it.
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
