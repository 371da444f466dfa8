# SPDX-License-Identifier: Apache-2.0

"""Base class of the operations of the fuzz."""

import contextlib

from nova_prio_scenario import migrations
from tests.fuzz import comparison
from tests.fuzz import requests

REQUESTS = requests.REQUESTS
#: Stands for a host that the scheduler chooses.
ANY = 'any'


class UnexpectedOutcome(Exception):
    """An outcome that differs from the admission of the model."""


class Operations:
    """Operations on a cloud and its model."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._model = cloud.model
        self._servers = cloud.model.servers

    def _hosts(self, host):
        return self._model.up if host == ANY else [host]

    def _others_fit(self, server, host):
        """Return the other hosts where a server fits.

        :param host: name of a host, or ANY
        """
        return self._model.fitting_hosts(server.request, [
            each for each in self._hosts(host) if each != server.host])

    @staticmethod
    def _expect(shown, status, error=None):
        if shown['status'] != status:
            raise UnexpectedOutcome('%s instead of %s: %s' % (
                shown['status'], status, error or shown.get('fault')))

    def _change(self, name, status, **action):
        """Run an action that needs no capacity, and expect a status."""
        server = self._servers[name]
        shown, error = self._cloud.act(server, **action)
        self._expect(shown, status, error)
        server.status = status
        if status == 'SHELVED_OFFLOADED':
            server.usages.clear()

    def _recount_destination(self, server):
        """Recount the destination of a failed move.

        Stock Nova also keeps a part of the claim until the next recount: see
        test_exceptions. All else must be right already.
        """
        found = comparison.find_differences(self._cloud, accounting=False)
        if found:
            raise UnexpectedOutcome(found)
        migration = migrations.get_newest(self._cloud.api, server.uuid)
        self._recount(migration.get('dest_compute'))

    @contextlib.contextmanager
    def _leaving(self, server):
        """Return a context in which a server leaves its host.

        Stock Nova frees only instances that it tracks, and an instance that
        has moved to a host only after a recount. Before a delete it confirms a
        resize, and then no longer tracks an instance that was resized on its
        host. See test_exceptions. So the host is recounted.
        """
        host = server.host
        is_tracked = (
            server.status != 'VERIFY_RESIZE' and host in self._model.up and
            server.uuid in self._cloud.computes[host].rt.tracked_instances)
        yield
        if not is_tracked:
            self._recount(host)

    def _recount(self, *hosts):
        """Recount those of the hosts that are up."""
        for host in hosts:
            if host in self._model.up:
                self._cloud.update_host(host)

    @staticmethod
    def _host_body(host):
        """Return the body of an action for a host, or None for ANY."""
        return None if host == ANY else {'host': host}
