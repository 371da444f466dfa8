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
from tests.live import logs
from tests.live import waiting
from tests.live import watch

#: Duration in seconds of a fault that does not end by itself.
FAULT_SECONDS = 30
#: Seconds to wait for the target of a fault, or for its effect.
SECONDS = 120
#: Seconds by which a clock is ahead, one after the other. Each change is more
#: than the service_down_time of Nova.
STEPS = 3600, -3600, 0
NO_SPACE = 'No space left on device'


def kill_building_compute(cloud):
    """Kill the nova-compute of a host while it builds a server."""
    server = waiting.soon(_server_with, cloud, 'spawning',
                          every=0.1, within=SECONDS)
    _kill(cloud, 'nova-compute-' + server.compute_host)


def kill_claiming_compute(cloud):
    """Kill the nova-compute of a host in the middle of a claim.

    The claim has succeeded, but the remaining capacity is not saved yet.
    """
    name = 'nova-compute-' + cloud.layout.hosts[0]
    _wait_for_line(cloud, name, 'Claim successful')
    _kill(cloud, name)


def kill_scheduler(cloud):
    """Kill nova-scheduler as soon as nova-api has accepted a server."""
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


def restart_broker(cloud):
    """Restart RabbitMQ."""
    cloud.restart('messages')


def restart_database(cloud):
    """Restart MariaDB."""
    cloud.restart('database')


def stop_placement(cloud):
    """Stop Placement for FAULT_SECONDS."""
    cloud.processes.stop('placement')
    time.sleep(FAULT_SECONDS)
    cloud.start('placement')


def restart_libvirtd(cloud):
    """Restart the libvirtd of a host; its guests keep running.

    If libvirtd ends during a call of nova-compute, nova-compute may wait
    forever for its own lock. Then restart nova-compute, as an operator must.
    """
    server = catalog.connect(cloud.layout).compute.find_server(
        'untouched-load-high', all_projects=True)
    name = server.compute_host
    record = host.read_record(cloud.layout, name)
    os.kill(cloud.processes.pid('host-' + name), host.RESTART_LIBVIRTD)
    cloud.processes.wait(
        'host-' + name, lambda: record != host.read_record(cloud.layout, name))
    if not _asks_libvirt(cloud, server):
        print('The nova-compute of %s waits for ever.' % name)
        cloud.restart('nova-compute-' + name)


def _asks_libvirt(cloud, server):
    """Return whether nova-compute answers one of three diagnostics calls."""
    compute = catalog.connect(cloud.layout).compute
    # The first call may only detect that the connection is closed.
    return any(compute.get('/servers/%s/diagnostics' % server.id).ok
               for _ in range(3))


def fill_disk(cloud):
    """Fill the file system of the instances of a host for FAULT_SECONDS.

    During this time, creates on this host must end in ERROR.
    """
    name = cloud.layout.hosts[0]
    enter = host.read_record(cloud.layout, name)['enter']
    file = cloud.layout.compute_state / 'instances' / 'full'
    try:
        # dd ends when there is no space left.
        filling = subprocess.run(
            [*enter, 'dd', 'if=/dev/zero', 'of=%s' % file, 'bs=1M'],
            capture_output=True, text=True)
        assert NO_SPACE in filling.stderr
        # Fill the space that users free during the fault.
        with subprocess.Popen(
                [*enter, 'timeout', str(FAULT_SECONDS), 'sh', '-c',
                 'while sleep 0.1; do head -c 1M /dev/zero >>%s; done' % file],
                stderr=subprocess.DEVNULL):
            service = cloud.processes.log('nova-compute-' + name)
            before = service.read_text().count(NO_SPACE)
            assert 'ERROR' == _status_of_new_server(cloud, name)
            assert before < service.read_text().count(NO_SPACE)
    finally:
        subprocess.run([*enter, 'rm', file], check=True)


def step_clock(cloud):
    """Set the clock of a nova-compute ahead, back, and to the right time.

    Then restart nova-compute, as an operator must. Otherwise keystoneauth
    would wait as long as the clock was set back.
    """
    name = cloud.layout.hosts[0]
    clock = cloud.layout.run / 'clock'
    clock.write_text('0')
    service = 'nova-compute-' + name
    cloud.processes.stop(service)
    cloud.start_compute(name, clock)
    for step in STEPS:
        clock.write_text(str(step))
        time.sleep(FAULT_SECONDS)
        assert cloud.processes.is_running(service)
        if step > 0:
            waiting.soon(_is_ahead, cloud.processes.log(service), step,
                         every=1, within=SECONDS)
    cloud.restart(service)


def _is_ahead(log, seconds):
    """Return whether the clock that wrote a log is ahead by some seconds."""
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


class OrphanGuest(typing.NamedTuple):
    """A guest that Nova left on a host without its server."""

    host: str
    uuid: str
    is_running: bool


def find_orphan_guests(layout, uuids):
    """Return the orphan guests of some servers.

    If a resize, confirm or revert fails on the other host, Nova leaves the
    guest shut off on the old host. If libvirt or the database fails just after
    the start of a guest, the build fails. Then the guest keeps
    running, and another host may build the server again.

    :param layout: Layout
    :param uuids: UUIDs of servers
    :returns: list of OrphanGuest
    """
    compute = catalog.connect(layout).compute
    host_of = {server.id: server.compute_host
               for server in compute.servers(all_projects=True)}
    found = []
    for name in layout.hosts:
        running = client.virsh(layout, name, 'list', '--uuid').split()
        defined = client.virsh(layout, name, 'list', '--all', '--uuid').split()
        found += [OrphanGuest(name, uuid, uuid in running) for uuid in defined
                  if uuid in uuids and host_of.get(uuid) != name]
    return found


def remove_orphan_guests(layout, written, uuids):
    """Remove the orphan guests of some servers; return the OrphanGuests.

    :param written: logs.NewLines; nova-compute must log a running orphan
        guest, and a server may have been scheduled again
    :param uuids: UUIDs of servers whose create or move failed or got stuck
    """
    found = find_orphan_guests(
        layout, uuids | logs.rescheduled_servers(written))
    for guest in found:
        if guest.is_running:
            waiting.soon(_is_logged, guest, written, every=5,
                         within=watch.SETTLE_SECONDS)
        remove_guest(layout, guest)
    return found


def _is_logged(guest, written):
    """Return whether nova-compute logged a guest as an orphan.

    :param guest: OrphanGuest
    :param written: logs.NewLines
    """
    return any(
        guest.uuid in line and 'but its instance is not on this host' in line
        for line in written.lines('nova-compute-' + guest.host))


def remove_guest(layout, guest):
    """Remove a guest, as an operator does.

    :param layout: Layout
    :param guest: OrphanGuest
    """
    if guest.is_running:
        client.virsh(layout, guest.host, 'destroy', guest.uuid)
    client.virsh(layout, guest.host, 'undefine', guest.uuid)


#: All faults.
FAULTS = (kill_building_compute, kill_claiming_compute, kill_scheduler,
          restart_broker, restart_database, stop_placement,
          restart_libvirtd, fill_disk, step_clock)
