# SPDX-License-Identifier: Apache-2.0

"""Servers that nobody operates on, whatever befalls the cloud."""

import psutil

from tests.live import catalog
from tests.live import load
from tests.live import look
from tests.live import operations


class Bystanders:
    """One server of each flavor of the load, within the body of it.

    :raises openstack.exceptions.SDKException: if one does not become ACTIVE,
        or does not go
    """

    def __init__(self, layout, name):
        """Name them; ``__enter__`` creates them.

        :param name: prefix of their names
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
            self._leave()
            raise
        return self

    def __exit__(self, *exc_info):
        self._leave()

    def _leave(self):
        for server in self._servers:
            self._compute.delete_server(server)
        for server in self._servers:
            self._compute.wait_for_delete(server, wait=operations.SECONDS)

    def look(self):
        """Return the present state of the servers.

        :returns: dict, UUID -> (status, host, the process of its guest and
            what that has of the host, a state.Domain)
        """
        statuses = {server.id: self._compute.get_server(server.id).status
                    for server in self._servers}
        return {domain.uuid: (statuses[domain.uuid], name,
                              _process(domain.uuid), domain)
                for name in self._layout.hosts
                for host in look.at_active_guests(self._layout, name).hosts
                for domain in host.domains if domain.uuid in statuses}


def _process(uuid):
    found, = (process.pid for process in psutil.process_iter(['cmdline'])
              if {'-uuid', uuid} <= {*(process.info['cmdline'] or ())})
    return found
