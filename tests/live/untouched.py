# SPDX-License-Identifier: Apache-2.0

"""Servers that no user operates on, so that they must not change."""

import psutil

from tests.live import catalog
from tests.live import load
from tests.live import operations
from tests.live import snapshots


class UntouchedServers:
    """Context with one server of each flavor in load.FLAVORS.

    :raises openstack.exceptions.SDKException: if a server does not become
        ACTIVE, or cannot be deleted
    """

    def __init__(self, layout, name):
        """Create no server yet.

        :param name: prefix of the names of the servers
        """
        self._layout = layout
        self._name = name
        connection = catalog.connect(layout)
        self._compute = connection.compute
        self._image = connection.image.find_image('guest').id
        self._servers = []

    def __enter__(self):
        try:
            for name in load.FLAVORS:
                self._servers.append(self._compute.create_server(
                    name='%s-%s' % (self._name, name), networks='none',
                    flavor_id=self._compute.find_flavor(name).id,
                    image_id=self._image))
            for server in self._servers:
                self._compute.wait_for_server(
                    server, wait=operations.SECONDS)
        except Exception:
            self._delete()
            raise
        return self

    def __exit__(self, *exc_info):
        self._delete()

    def _delete(self):
        for server in self._servers:
            self._compute.delete_server(server)
        for server in self._servers:
            self._compute.wait_for_delete(server, wait=operations.SECONDS)

    def read_states(self):
        """Return the present state of the servers.

        :returns: dict, UUID -> (status, host, PID of the guest, state.Domain)
        """
        statuses = {server.id: self._compute.get_server(server.id).status
                    for server in self._servers}
        states = {}
        for name in self._layout.hosts:
            host, = snapshots.read_active_guests(self._layout, name).hosts
            for domain in host.domains:
                if domain.uuid in statuses:
                    states[domain.uuid] = (
                        statuses[domain.uuid], name, _pid(domain.uuid), domain)
        return states


def _pid(uuid):
    """Return the PID of the QEMU process of a server."""
    pid, = (process.pid for process in psutil.process_iter(['cmdline'])
            if {'-uuid', uuid} <= {*(process.info['cmdline'] or ())})
    return pid
