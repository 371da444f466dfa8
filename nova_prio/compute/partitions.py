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

import nova.conf
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_prio.compute import guest_xml

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# A guest without devices, which never runs.
_PROBE = '''<domain type="%s">
  <name>nova-prio-probe-%s</name>
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
        self.problem = None

    def prove(self, shared):
        """Find out whether a guest starts in each of them.

        :param shared: set of the CPU numbers on which that is tried, if there
            are any: the others may be busy with high-priority guests
        """
        with self._lock:
            problem = None
            for priority, partition in guest_xml.PARTITIONS.items():
                try:
                    self._start_and_stop(priority, shared)
                except libvirt_host.libvirt.libvirtError as error:
                    problem = (
                        'libvirt cannot start a guest in the partition %s '
                        '(%s); run nova-prio-host prepare on the host'
                        % (partition, error))
                    break
            if problem and problem != self.problem:
                LOG.error('No priority instance is admitted: %s.', problem)
            elif self.problem and not problem:
                LOG.info('Priority instances are admitted again: libvirt '
                         'starts guests in their partitions.')
            self.problem = problem

    def _start_and_stop(self, priority, shared):
        probe = guest_xml.of_priority(
            _PROBE % (CONF.libvirt.virt_type, priority,
                      hardware.format_cpu_spec(shared)), priority)
        domain = self._host.get_connection().createXML(
            probe, libvirt_host.libvirt.VIR_DOMAIN_START_PAUSED)
        domain.destroy()
