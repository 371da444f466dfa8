# SPDX-License-Identifier: Apache-2.0

"""Faults of a live cloud. Each fault is over when its function returns."""

import datetime
import os
import signal
import subprocess
import time
import typing

from tests.live import catalog
from tests.live import client
from tests.live import host
from tests.live import waiting

#: Duration in seconds of a fault that does not end by itself.
AWAY_SECONDS = 30
#: Seconds to wait for the target of a fault, or for its effect.
SECONDS = 120
#: Seconds by which a clock is ahead, one after the other. Each change is more
#: than the service_down_time of Nova.
STEPS = 3600, -3600, 0
NO_SPACE = 'No space left on device'


def killed_compute(cloud):
    """The nova-compute of a host is killed while it builds a server."""
    server = waiting.soon(_server_with, cloud, 'spawning',
                          every=0.1, within=SECONDS)
    _kill(cloud, 'nova-compute-' + server.compute_host)


def claiming_compute(cloud):
    """The nova-compute of a host is killed in the middle of a claim.

    The claim has succeeded, but the remaining capacity is not saved yet.
    """
    name = 'nova-compute-' + cloud.layout.hosts[0]
    _wait_for_line(cloud, name, 'Claim successful')
    _kill(cloud, name)


def killed_scheduler(cloud):
    """The scheduler is killed as soon as nova-api has accepted a server."""
    _wait_for_line(cloud, 'compute', '"POST /v2.1/servers" status: 202')
    _kill(cloud, 'nova-scheduler')


def _wait_for_line(cloud, name, text):
    with open(cloud.processes.log(name)) as log:
        log.seek(0, os.SEEK_END)
        waiting.soon(lambda: text in log.read(), every=0.005, within=SECONDS)


def _server_with(cloud, task_state):
    compute = catalog.connect(cloud.layout).compute
    for server in compute.servers(all_projects=True, status='BUILD'):
        if server.task_state == task_state:
            return server
    return None


def _kill(cloud, name):
    cloud.processes.stop(name, signal.SIGKILL)
    cloud.start(name)


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
    """The libvirtd of a host is restarted; its guests keep running.

    If libvirtd ends during a call of nova-compute, nova-compute may wait
    forever for its own lock. Then it is restarted, as an operator must do.
    """
    server = catalog.connect(cloud.layout).compute.find_server(
        'untouched-load-high', all_projects=True)
    name = server.compute_host
    before = host.found(cloud.layout, name)
    os.kill(cloud.processes.pid('host-' + name), host.RESTART_LIBVIRTD)
    cloud.processes.wait(
        'host-' + name, lambda: before != host.found(cloud.layout, name))
    if not _asks_libvirt(cloud, server):
        print('The nova-compute of %s waits for ever.' % name)
        cloud.restart('nova-compute-' + name)


def _asks_libvirt(cloud, server):
    """Return whether nova-compute answers one of three diagnostics calls."""
    compute = catalog.connect(cloud.layout).compute
    # The first call may only detect that the connection is gone.
    return any(compute.get('/servers/%s/diagnostics' % server.id).ok
               for _ in range(3))


def full_disk(cloud):
    """The file system of a host's instances is full for a while.

    Creates on this host must end in ERROR meanwhile.
    """
    name = cloud.layout.hosts[0]
    enter = host.found(cloud.layout, name)['enter']
    file = cloud.layout.compute_state / 'instances' / 'full'
    try:
        # dd ends when there is no space left.
        filling = subprocess.run(
            [*enter, 'dd', 'if=/dev/zero', 'of=%s' % file, 'bs=1M'],
            capture_output=True, text=True)
        assert NO_SPACE in filling.stderr
        # Fill the space that users free meanwhile.
        with subprocess.Popen(
                [*enter, 'timeout', str(AWAY_SECONDS), 'sh', '-c',
                 'while sleep 0.1; do head -c 1M /dev/zero >>%s; done' % file],
                stderr=subprocess.DEVNULL):
            service = cloud.processes.log('nova-compute-' + name)
            before = service.read_text().count(NO_SPACE)
            assert 'ERROR' == _status_of_new_server(cloud, name)
            assert before < service.read_text().count(NO_SPACE)
    finally:
        subprocess.run([*enter, 'rm', file], check=True)


def stepped_clock(cloud):
    """The clock of a host's nova-compute is set ahead, back, and right.

    Then nova-compute is restarted, as an operator must do. Otherwise
    keystoneauth would wait as long as the clock was set back.
    """
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
        if step > 0:
            waiting.soon(_is_ahead, cloud.processes.log(service), step,
                         every=1, within=SECONDS)
    cloud.restart(service)


def _is_ahead(log, seconds):
    """Return whether a clock is ahead of ours, by the log of its service."""
    now = datetime.datetime.now()
    for line in reversed(log.read_text().splitlines()):
        try:
            ahead = datetime.datetime.fromisoformat(line[:23]) - now
        except ValueError:
            continue
        return abs(ahead.total_seconds() - seconds) < STEPS[0] / 2
    return False


def _status_of_new_server(cloud, name):
    """Create a server on a host and return its final status."""
    connection = catalog.connect(cloud.layout)
    compute = connection.compute
    server = compute.create_server(
        name='on-full-disk', flavor_id=compute.find_flavor('load-low').id,
        image_id=connection.image.find_image('guest').id, networks='none',
        availability_zone='nova:' + name)
    try:
        return waiting.soon(
            lambda: compute.get_server(server.id).status.replace('BUILD', ''),
            every=1, within=SECONDS)
    finally:
        compute.delete_server(server)
        compute.wait_for_delete(server, wait=SECONDS)


class Left(typing.NamedTuple):
    """A guest that Nova left on a host without its server."""

    host: str
    uuid: str
    is_running: bool


def left(layout, made_in_vain):
    """Return the guests that Nova left on hosts without their servers.

    If a resize, confirm or revert fails on the other host, Nova leaves the
    guest shut off on the old host. If libvirt or the database fails just after
    the start of a guest, Nova takes the build for failed. Then the guest keeps
    running, and another host may build the server again.

    :param layout: Layout
    :param made_in_vain: UUIDs of the servers to look for
    :returns: list of Left
    """
    compute = catalog.connect(layout).compute
    homes = {server.id: server.compute_host
             for server in compute.servers(all_projects=True)}
    found = []
    for name in layout.hosts:
        running = client.virsh(layout, name, 'list', '--uuid').split()
        defined = client.virsh(layout, name, 'list', '--all', '--uuid').split()
        found += [Left(name, uuid, uuid in running) for uuid in defined
                  if uuid in made_in_vain and homes.get(uuid) != name]
    return found


def remove(layout, guest):
    """Remove a guest, as an operator does.

    :param layout: Layout
    :param guest: Left
    """
    if guest.is_running:
        client.virsh(layout, guest.host, 'destroy', guest.uuid)
    client.virsh(layout, guest.host, 'undefine', guest.uuid)


#: All of them.
FAULTS = (killed_compute, claiming_compute, killed_scheduler,
          restarted_broker, restarted_database, absent_placement,
          restarted_libvirtd, full_disk, stepped_clock)
