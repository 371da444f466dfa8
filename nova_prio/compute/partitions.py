# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Whether libvirt can start guests in the partitions of both priorities.

Without systemd and machined libvirt makes no partition but its own, and a
guest in one that is missing does not start. nova-compute may run where it
does not see the cgroups of the host: only libvirt knows, so it is asked to
start a guest.
"""

import threading
import uuid

import nova.conf
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_prio.compute import guest_xml

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

#: How long a guest is waited for. libvirt puts it into its cgroups first, and
#: tells at once where that fails.
WAIT_SECONDS = 10

#: How the names of the guests begin that are started to try it.
PROBE = 'nova-prio-probe-'

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
        self.problem = None

    def prove(self, shared):
        """Find out whether a guest starts in each of them.

        :param shared: set of the CPU numbers on which that is tried, if there
            are any: the others may be busy with high-priority guests
        """
        with self._lock:
            errors = {priority: self._error(priority, shared)
                      for priority in guest_xml.PARTITIONS}
            problem = None
            for priority, error in errors.items():
                if error is not None:
                    problem = (
                        'libvirt cannot start a guest in the partition %s '
                        '(%s); run nova-prio-host prepare on the host'
                        % (guest_xml.PARTITIONS[priority], error))
                    break
            if problem and problem != self.problem:
                LOG.error('No priority instance is admitted: %s.', problem)
            elif self.problem and not problem:
                LOG.info('Priority instances are admitted again: libvirt '
                         'starts guests in their partitions.')
            self.problem = problem

    def _error(self, priority, shared):
        """Return what libvirt says against a guest, or None."""
        probe = self._probes.get(priority)
        if probe is None or not probe.is_alive():
            probe = _Probe(self._host.get_connection(), priority, shared)
            self._probes[priority] = probe
            probe.start()
        probe.join(WAIT_SECONDS)
        if probe.is_alive():
            LOG.warning(
                'libvirt takes more than %(seconds)d s to start a guest in '
                'the partition %(partition)s on CPUs %(cpus)s: guests of more '
                'weight keep them busy, and low-priority guests start late; '
                'see nova-prio-host --low-weight.',
                {'seconds': WAIT_SECONDS,
                 'partition': guest_xml.PARTITIONS[priority],
                 'cpus': hardware.format_cpu_spec(shared)})
        return probe.error


class _Probe(threading.Thread):
    """Starts a guest and stops it, however long that takes.

    ``error`` is libvirt's, or None.
    """

    def __init__(self, connection, priority, shared):
        super().__init__(name=PROBE + priority, daemon=True)
        self.error = None
        self._connection = connection
        # The same one each time.
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, self.name))
        self._xml = guest_xml.of_priority(
            _PROBE_XML % (CONF.libvirt.virt_type, self.name, self._uuid,
                          hardware.format_cpu_spec(shared)), priority)

    def run(self):
        try:
            self._end_left()
            self._connection.createXML(
                self._xml, libvirt_host.libvirt.VIR_DOMAIN_START_PAUSED
            ).destroy()
        except libvirt_host.libvirt.libvirtError as error:
            self.error = error

    def _end_left(self):
        """End one that stayed, since libvirtd or nova-compute went away."""
        try:
            self._connection.lookupByUUIDString(self._uuid).destroy()
        except libvirt_host.libvirt.libvirtError as error:
            if (error.get_error_code() !=
                    libvirt_host.libvirt.VIR_ERR_NO_DOMAIN):
                raise
