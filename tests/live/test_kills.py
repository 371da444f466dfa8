# SPDX-License-Identifier: Apache-2.0

"""nova-compute is killed and started again in the middle of moves.

``NOVA_PRIO_KILLS`` sets the number of kills, ``NOVA_PRIO_SOAK_SEED`` the draws
of a run. An operator then does what the documentation says, and all servers
must run again.
"""

import itertools
import json
import os
import random
import re
import signal
import time

import pytest

from tests.live import client
from tests.live import cloud as clouds
from tests.live import faults
from tests.live import waiting
from tests.live import watch

DEFAULT_KILLS = 4
FLAVORS = ('high', 'low', 'ordinary')
MOVES = ('migrate', 'live_migrate', 'evacuate', 'revert')
#: A kill comes at most so many seconds after the request or after the kill of
#: the other nova-compute.
SECONDS = 4
#: An operator resets the state of a server that has kept its task for so long
#: after both nova-compute are up.
STUCK_SECONDS = 45
#: All servers must run after this time.
RECOVERY_SECONDS = 600
#: SIGTERM lets nova-compute of Nova 34 end what it does.
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)


class Mover:
    """Moves servers, kills the services of their hosts, and recovers.

    :param admin: connection of the administrator
    :param uuids: UUIDs of the servers
    """

    def __init__(self, layout, admin, uuids):
        self._layout = layout
        self._compute = admin.compute
        self._cloud = clouds.Cloud(layout)
        self._uuids = uuids
        self._rebooted = set()  # UUIDs of the servers that do not run again
        self._task_since = {}  # (UUID, task) -> time when it was seen first

    def _servers(self):
        return [self._compute.get_server(uuid) for uuid in self._uuids]

    def _service(self, host):
        service, = self._compute.services(host=host, binary='nova-compute')
        return service

    # Moves

    def choose_hosts(self, draws):
        """Return a host with a server, and another host."""
        source = draws.choice(self._servers()).compute_host
        others = [host for host in self._layout.hosts if host != source]
        return source, draws.choice(others)

    def request(self, move, source, destination):
        """Move the servers on one host to another one."""
        if move == 'evacuate':
            self._stop(source, signal.SIGKILL)
            self._compute.update_service_forced_down(
                self._service(source), source, 'nova-compute', True)
        moved = [server.id for server in self._servers()
                 if server.compute_host == source]
        for uuid in moved:
            if move == 'evacuate':
                self._compute.evacuate_server(uuid, host=destination)
            elif move == 'live_migrate':
                self._compute.live_migrate_server(
                    uuid, host=destination, block_migration='auto')
            else:
                self._compute.migrate_server(uuid, host=destination)
        if move == 'revert':
            for uuid in moved:
                waiting.soon(self._is_moved, uuid, every=1,
                             within=client.SECONDS)
            for uuid in moved:
                self._compute.revert_server_resize(uuid)

    def _is_moved(self, uuid):
        return self._compute.get_server(uuid).status == 'VERIFY_RESIZE'

    def _stop(self, host, number):
        self._cloud.processes.stop('nova-compute-' + host, number)

    def kill(self, host, number):
        """Kill the nova-compute of a host, and start it again.

        :param number: the signal
        """
        self._stop(host, number)
        self._cloud.start_compute(host)

    # Recovery

    def recover(self, source):
        """Do what an operator does until all servers run.

        :param source: host that may be forced down
        """
        waiting.soon(self._raise_service, source, every=2,
                     within=RECOVERY_SECONDS)
        waiting.soon(self._recover_all, every=2, within=RECOVERY_SECONDS)

    def _raise_service(self, host):
        """End the forced state of a host; Nova may refuse for a while."""
        service = self._service(host)
        if service.is_forced_down:
            try:
                self._compute.update_service_forced_down(
                    service, host, 'nova-compute', False)
            except watch.DOWN:
                return False
        return all(self._service(name).state == 'up'
                   for name in self._layout.hosts)

    def _recover_all(self):
        """Do the next step for each server; return whether all run."""
        try:
            self._follow_audit()
            return all([self._recover(server) for server in self._servers()])
        except watch.DOWN as error:
            # The state of a server has changed meanwhile.
            print(error)
            return False

    def _follow_audit(self):
        """Repair what the audit finds, and confirm or revert what it names."""
        for row in json.loads(self._cloud.audit() or '[]'):
            print(row['Host'], row['Finding'], row['Consumer'], row['State'],
                  row['Remedy'])
            for action, uuid in re.findall(
                    r'server resize (\w+) (\S+)"', row['Remedy'])[-1:]:
                getattr(self._compute, action + '_server_resize')(uuid)

    def _recover(self, server):
        """Do the next step for a server; return whether it runs."""
        now = time.monotonic()
        since = self._task_since.setdefault((server.id, server.task_state),
                                            now)
        if server.task_state:
            if now > since + STUCK_SECONDS:
                print('reset', server.id, server.task_state)
                self._compute.reset_server_state(server, 'active')
            return False
        self._task_since = {key: value for key, value
                            in self._task_since.items()
                            if key[0] != server.id}
        if server.status == 'VERIFY_RESIZE':
            self._compute.confirm_server_resize(server)
        elif server.status == 'ERROR':
            print('reset', server.id, 'ERROR')
            self._compute.reset_server_state(server, 'active')
        elif server.status == 'SHUTOFF':
            self._compute.start_server(server)
        elif server.status == 'ACTIVE':
            return self._ensure_guest(server)
        return False

    def _ensure_guest(self, server):
        """Start the guest of an active server unless it runs on its host."""
        for orphan in faults.find_orphan_guests(self._layout, {server.id}):
            faults.remove_guest(self._layout, orphan)
        running = client.virsh(self._layout, server.compute_host, 'list',
                               '--uuid').split()
        if server.id in running:
            self._rebooted.discard(server.id)
            return True
        if server.id in self._rebooted:
            # When a host returns during an evacuation, Nova deletes the disks
            # there, even if the evacuation fails.
            print('rebuild', server.id)
            self._compute.rebuild_server(server, image=server.image.id)
        else:
            print('reboot', server.id)
            self._compute.reboot_server(server, 'HARD')
            self._rebooted.add(server.id)
        return False


@pytest.fixture
def draws(record_property):
    """The random generator of a run."""
    seed = os.environ.get('NOVA_PRIO_SOAK_SEED') or str(
        random.SystemRandom().randrange(10 ** 6))
    record_property('NOVA_PRIO_SOAK_SEED', seed)
    print('NOVA_PRIO_SOAK_SEED=' + seed)
    return random.Random(seed)


def test_servers_recover_from_kills(
        layout, admin, openstack, boot, hosts, draws, record_property):
    uuids = [boot('moved-' + flavor, flavor, '--host', hosts[0])['id']
             for flavor in FLAVORS]
    mover = Mover(layout, admin, uuids)
    kills = int(os.environ.get('NOVA_PRIO_KILLS') or DEFAULT_KILLS)
    moves = itertools.cycle(MOVES)
    for number in range(0, kills, 2):
        move = next(moves)
        source, destination = mover.choose_hosts(draws)
        mover.request(move, source, destination)
        victims = draws.sample((source, destination), 2)
        print('%s %s -> %s, kill %s' % (move, source, destination, victims))
        for victim in victims:
            time.sleep(draws.uniform(0, SECONDS))
            mover.kill(victim, draws.choice(SIGNALS))
        started = time.monotonic()
        mover.recover(source)
        print('recovered after %d s' % (time.monotonic() - started))
        assert [] == watch.settle(
            layout, audit=clouds.Cloud(layout).audit).violations
        record_property('kills', number + 2)
