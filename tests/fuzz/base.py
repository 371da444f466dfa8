# SPDX-License-Identifier: Apache-2.0

"""The parts that the operations of the fuzz have in common."""

from nova_prio.scenario import player
from tests.fuzz import kinds
from tests.fuzz import look

KINDS = kinds.KINDS
#: Stands for a host that the scheduler chooses.
ANY = 'any'


class Unexpected(Exception):
    """An outcome that the admission of the model rules out."""


class Operations:
    """Operations on a cloud and its model."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._model = cloud.model
        self._servers = cloud.model.servers

    def _hosts(self, host):
        return self._model.up if host == ANY else [host]

    def _others_fit(self, server, host):
        """Return the hosts that a server may move to."""
        return self._model.fitting(server.kind, [
            each for each in self._hosts(host) if each != server.host])

    @staticmethod
    def _expect(shown, status, error=None):
        if shown['status'] != status:
            raise Unexpected('%s instead of %s: %s' % (
                shown['status'], status, error or shown.get('fault')))

    def _change(self, name, status, **action):
        """Do what needs no room."""
        server = self._servers[name]
        shown, error = self._cloud.act(server, **action)
        self._expect(shown, status, error)
        server.status = status
        if status == 'SHELVED_OFFLOADED':
            server.holds.clear()

    def _recount_destination(self, server):
        """Recount the destination of a move that has failed.

        Nova leaves some of the claim there until the next recount, with its
        own driver, too: see test_exceptions. All else must be right already.
        """
        found = look.differences(self._cloud, accounting=False)
        if found:
            raise Unexpected(found)
        migration = player.newest_migration(self._cloud.api, server.uuid)
        self._recount(migration.get('dest_compute'))

    def _recount(self, *hosts):
        """Recount those of the hosts that are up."""
        for host in hosts:
            if host in self._model.up:
                self._cloud.update_host(host)

    @staticmethod
    def _requested(host):
        """Return the host that an action asks for, or None."""
        return None if host == ANY else {'host': host}
