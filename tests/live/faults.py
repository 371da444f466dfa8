# SPDX-License-Identifier: Apache-2.0

"""What goes wrong in a live cloud, and is over when its function returns."""

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

#: Seconds that a fault lasts that does not end by itself.
AWAY_SECONDS = 30
#: Seconds until what a fault is to hit is there, or its effect is seen.
SECONDS = 120
#: How many seconds a clock is ahead, one after the other: more than a service
#: may be silent for before it counts as down.
STEPS = 3600, -3600, 0
NO_SPACE = 'No space left on device'


def killed_compute(cloud):
    """The nova-compute of a host is killed while it builds a server."""
    server = waiting.soon(_server_with, cloud, 'spawning',
                          every=0.1, within=SECONDS)
    _kill(cloud, 'nova-compute-' + server.compute_host)


def claiming_compute(cloud):
    """The nova-compute of a host is killed in the middle of a claim.

    By then the host has room, and nobody has been told what is left.
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
    """The libvirtd of a host is restarted; its guests run on.

    Where it goes away in the middle of a call of nova-compute, the latter may
    wait for a lock that it holds itself, and is started anew, as an operator
    has to do.
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
    """Return whether nova-compute tells of a guest, at the third time."""
    compute = catalog.connect(cloud.layout).compute
    # The first one may tell that the connection is gone.
    return any(compute.get('/servers/%s/diagnostics' % server.id).ok
               for _ in range(3))


def full_disk(cloud):
    """The file system of a host's instances is full for a while.

    Users have an error there meanwhile, and no server that seems to run.
    """
    name = cloud.layout.hosts[0]
    enter = host.found(cloud.layout, name)['enter']
    file = cloud.layout.compute_state / 'instances' / 'full'
    try:
        # It ends where there is no room left.
        filling = subprocess.run(
            [*enter, 'dd', 'if=/dev/zero', 'of=%s' % file, 'bs=1M'],
            capture_output=True, text=True)
        assert NO_SPACE in filling.stderr
        # What users leave meanwhile is filled too.
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

    It is started anew then, as an operator has to do: keystoneauth waits by
    the clock, and as long as that was set back to before its session began.
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
    """Create a server on a host; returns what becomes of it."""
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
    """A guest that Nova left where its server is not."""

    host: str
    uuid: str
    is_running: bool


def left(layout, made_in_vain):
    """Return the guests that Nova leaves where their servers are not.

    Where a resize or its end fails at the other host, Nova takes the server
    for one that is there and leaves its guest defined where it was, shut off.
    Where libvirt or the database goes away when a guest has just been started,
    Nova takes the build for failed and leaves the guest, running, though
    another host may build the server anew.

    :param layout: Layout
    :param made_in_vain: UUIDs of the servers
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
