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


"""What only the host itself knows of a plan: its kernel and its guests."""

from nova.virt import hardware

from nova_prio.audit import guests
from nova_prio import capacity
from nova_prio.colocation import plan
from nova_prio.colocation import rows
from nova_prio.compute import checks
from nova_prio.compute import guest_xml

#: The host was not looked at.
NOT_SEEN = rows.Row(
    rows.HOST, 'not seen', remedy='Guests are taken to float on the CPU sets '
    'that the host has now; kernel, cgroups and options were not looked at.')


def of_host(conf, cpus, of_cgroups):
    """Yield the Rows of what speaks against the plan on this host.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param cpus: ``capacity.HostCPUs`` as they are to be
    :param of_cgroups: list of sentences that nova-prio-host says
    """
    for name in 'reserved_host_cpus', 'vcpu_pin_set':
        if conf[name]:
            yield rows.Row(
                rows.HOST, name, str(conf[name]), '', 'Take it out with the '
                'step that sets the CPU sets: Nova does not start with both.')
    if cpus.mix:
        for problem in checks.problems_of_mix(
                conf, cpus.dedicated, cpus.shared, cpus.ratio):
            yield rows.Row(rows.HOST, 'mix', 'nova-compute would not start',
                           remedy=_sentence(problem), is_in_the_way=True)
    for problem in checks.problems_of_low_emulator_set(conf, cpus.dedicated):
        yield rows.Row(
            rows.HOST, 'low_emulator_set', 'nova-compute would not start',
            remedy=_sentence(problem), is_in_the_way=True)
    for problem in of_cgroups:
        yield rows.Row(rows.HOST, 'partitions', 'not prepared', 'prepared',
                       _sentence(problem))


def _sentence(text):
    return '%s%s.' % (text[0].upper(), text[1:].rstrip('.'))


def of_guests(host, running, cpus):
    """Yield the Rows of guests, where no database tells of instances.

    :param host: ``audit.guests.Host`` as it is
    :param running: list of ``audit.guests.Guest``
    :param cpus: ``capacity.HostCPUs`` as they are to be
    """
    for guest in running:
        pinned = frozenset().union(*(
            each for each in guest.vcpus if guests.is_pinned(host, each)))
        if pinned - cpus.dedicated:
            yield rows.Row(
                rows.OUTSIDE, guest.uuid,
                'CPUs ' + hardware.format_cpu_spec(pinned - cpus.dedicated),
                remedy=plan.MOVE, is_in_the_way=True)
        floating = cpus.dedicated & guest_xml.cpus_of_users(
            guest, guest.priority == capacity.LOW, cpus.dedicated) - pinned
        if floating:
            yield plan.floats(guest.uuid, floating)
