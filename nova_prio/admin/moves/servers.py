# SPDX-License-Identifier: Apache-2.0

"""Read and move servers with Nova's API."""

from __future__ import annotations

import http
import typing

from nova_prio.admin.moves import services
from nova_prio.admin import nova_client
from nova_prio.model.planner import fleet
from nova_prio.objects import migration_states

#: Status that a server must have, by the way to move it.
ALLOWED_STATUS = {
    fleet.LIVE: ('ACTIVE', 'PAUSED'),
    fleet.COLD: ('ACTIVE', 'SHUTOFF'),
    fleet.SHELVE: ('ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED')}
#: Way to move a server -> name of the instance action that Nova records.
_ACTIONS = {fleet.LIVE: 'live-migration', fleet.COLD: 'migrate',
            fleet.SHELVE: 'shelve'}


class ServerState(typing.NamedTuple):
    """A server; ``host`` is None if it is on no host."""

    host: str | None
    status: str
    task_state: str | None


class Servers:
    """The requests about servers that are moved."""

    def __init__(self, client: nova_client.NovaClient) -> None:
        self._client = client
        self._are_up: dict[str, bool] = {}

    def read(self, uuid: str) -> ServerState | None:
        """Return a server, or None if it does not exist.

        :raises APIRefused, APIUnavailable: also by the other methods
        """
        try:
            body = self._client.get('/servers/' + uuid)['server']
        except nova_client.APIRefused as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise
        if 'OS-EXT-SRV-ATTR:host' not in body:
            raise nova_client.APIRefused(
                "Nova's API hides the hosts of servers: give the credentials "
                'of an administrator', http.HTTPStatus.FORBIDDEN)
        return ServerState(host=body['OS-EXT-SRV-ATTR:host'],
                           status=body['status'],
                           task_state=body['OS-EXT-STS:task_state'])

    def start(self, move: fleet.Move) -> None:
        """Ask Nova to move a server.

        :param move: without a destination, Nova chooses one
        """
        if move.way == fleet.LIVE:
            self._client.act(move.uuid, 'os-migrateLive', {
                'host': move.destination, 'block_migration': 'auto'})
        elif move.way == fleet.COLD:
            destination = None
            if move.destination:
                destination = {'host': move.destination}
            self._client.act(move.uuid, 'migrate', destination)
        else:
            self._client.act(move.uuid, 'shelve')

    def confirm(self, uuid: str) -> None:
        """Confirm a cold migration."""
        self._client.act(uuid, 'confirmResize')

    def offload(self, uuid: str) -> None:
        """Remove a shelved server from its host."""
        self._client.act(uuid, 'shelveOffload')

    def find_last_request(self, uuid: str, way: str) -> str | None:
        """Return the ID of the last request that moved a server this way.

        If the answer to a request was lost, a new ID shows that Nova accepted
        it.

        :param way: 'live', 'cold' or 'shelve'
        :returns: None if there is none
        """
        # Nova lists the newest request first.
        actions = self._client.get(
            '/servers/%s/os-instance-actions' % uuid)['instanceActions']
        for action in actions:
            if action['action'] == _ACTIONS[way]:
                return action['request_id']
        return None

    def find_failure(self, uuid: str, way: str) -> str:
        """Return why the last move of a server failed, a clause.

        :param way: of the move, 'live', 'cold' or 'shelve'. It tells which
            actions of Nova are such a move.
        """
        request_id = self.find_last_request(uuid, way)
        events = []
        if request_id:
            events = self._client.get(
                '/servers/%s/os-instance-actions/%s' % (uuid, request_id),
            )['instanceAction']['events']
        # Nova lists the newest event first. Each event is a function of Nova
        # that a function with an older event has called. An error makes all of
        # them fail: the newest event has its cause.
        for event in events:
            if event['result'] == 'Error' and event.get('details'):
                return event['details'].strip().rstrip('.')
        return ('the status of its migration is "%s"; see the logs of '
                'nova-compute on both hosts'
                % self._find_migration(uuid).get('status', 'none'))

    def is_migrating(self, uuid: str) -> bool:
        """Return whether the last migration of a server is in progress."""
        return self._find_migration(uuid).get('status') in (
            migration_states.OPEN_STATUSES)

    def find_destination(self, uuid: str) -> str | None:
        """Return the host to which a server was moved last, or None."""
        return self._find_migration(uuid).get('dest_compute')

    def _find_migration(self, uuid: str) -> dict[str, typing.Any]:
        """Return the last migration of a server in the format of the API.

        :returns: key of the API, such as 'status' -> value; {} if the server
            has never been migrated
        """
        # Nova lists the newest migration first.
        migrations = self._client.get(
            '/os-migrations', instance_uuid=uuid, limit=1)['migrations']
        if not migrations:
            return {}
        return migrations[0]

    def forget_services(self) -> None:
        """Read the services again when :meth:`is_up` is called."""
        self._are_up = {}

    def is_up(self, host: str) -> bool:
        """Return whether the nova-compute of a host is up."""
        if host not in self._are_up:
            self._are_up[host] = any(
                each['state'] == 'up'
                for each in services.list_services(self._client, host))
        return self._are_up[host]
