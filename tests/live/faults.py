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

"""What goes wrong in a live cloud, and is over when its function returns."""

import os
import signal
import subprocess
import time

import tenacity

from tests.live import catalog
from tests.live import client
from tests.live import host

#: Seconds that a fault lasts that does not end by itself.
AWAY_SECONDS = 30
#: How many seconds a clock is ahead, one after the other: more than a service
#: may be silent for before it counts as down.
STEPS = 3600, -3600, 0


def killed_compute(cloud):
    """The nova-compute of a host is killed while it builds a server."""
    name = 'nova-compute-' + _building_host(cloud)
    cloud.processes.stop(name, signal.SIGKILL)
    cloud.start(name)


@tenacity.retry(retry=tenacity.retry_if_result(lambda host: host is None),
                stop=tenacity.stop_after_delay(120),
                wait=tenacity.wait_fixed(0.1))
def _building_host(cloud):
    compute = catalog.connect(cloud.layout).compute
    for server in compute.servers(all_projects=True, status='BUILD'):
        if server.task_state == 'spawning':
            return server.compute_host
    return None


def killed_scheduler(cloud):
    """The scheduler is killed."""
    cloud.processes.stop('nova-scheduler', signal.SIGKILL)
    cloud.start('nova-scheduler')


def restarted_broker(cloud):
    """RabbitMQ is restarted."""
    cloud.restart('messages')


def restarted_database(cloud):
    """MariaDB is restarted."""
    cloud.restart('database')


def absent_placement(cloud):
    """Placement is away for a while."""
    cloud.processes.stop('placement')
    time.sleep(AWAY_SECONDS)
    cloud.start('placement')


def restarted_libvirtd(cloud):
    """The libvirtd of a host is restarted; its guests run on."""
    name = cloud.layout.hosts[0]
    before = host.found(cloud.layout, name)
    os.kill(cloud.processes.pid('host-' + name), host.RESTART_LIBVIRTD)
    cloud.processes.wait(
        'host-' + name, lambda: before != host.found(cloud.layout, name))


def full_disk(cloud):
    """The file system of a host's instances is full for a while."""
    enter = host.found(cloud.layout, cloud.layout.hosts[0])['enter']
    file = cloud.layout.compute_state / 'instances' / 'full'
    try:
        # It ends where there is no room left.
        filling = subprocess.run(
            [*enter, 'dd', 'if=/dev/zero', 'of=%s' % file, 'bs=1M'],
            capture_output=True, text=True)
        assert 'No space left on device' in filling.stderr
        time.sleep(AWAY_SECONDS)
    finally:
        subprocess.run([*enter, 'rm', file], check=True)


def stepped_clock(cloud):
    """The clock of a host's nova-compute is set ahead, back, and right."""
    name = cloud.layout.hosts[0]
    clock = cloud.layout.run / 'clock'
    clock.write_text('0')
    service = 'nova-compute-' + name
    cloud.processes.stop(service)
    cloud.start_compute(name, clock)
    for step in STEPS:
        clock.write_text(str(step))
        time.sleep(AWAY_SECONDS)
        assert cloud.processes.is_running(service)
    cloud.restart(service)


def undefine_left(layout, moved_in_vain):
    """Undefine what Nova leaves of servers at hosts that they moved from.

    Where a resize or its end fails at the other host, Nova takes the server
    for one that is there and leaves its guest defined where it was, shut off.
    An operator undefines it.

    :param layout: Layout
    :param moved_in_vain: UUIDs of the servers
    :returns: list of (name of the host, UUID)
    """
    compute = catalog.connect(layout).compute
    homes = {server.id: server.compute_host
             for server in compute.servers(all_projects=True)}
    left = [(name, uuid) for name in layout.hosts
            for uuid in client.virsh(
                layout, name, 'list', '--inactive', '--uuid').split()
            if uuid in moved_in_vain and homes.get(uuid) != name]
    for name, uuid in left:
        client.virsh(layout, name, 'undefine', uuid)
    return left


#: All of them.
FAULTS = (killed_compute, killed_scheduler, restarted_broker,
          restarted_database, absent_placement, restarted_libvirtd, full_disk,
          stepped_clock)
