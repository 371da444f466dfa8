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

"""nova-scheduler of a live cloud, asked as nova-conductor asks it."""

from nova import config
from nova import context
from nova import objects
from nova.scheduler.client import query
from oslo_utils import uuidutils


class Scheduler:
    """What a server asked for, asked again for servers that never are."""

    def __init__(self, layout, connection):
        """Read the configuration of Nova's services.

        :param connection: of the administrator, as catalog.connect() makes it
        """
        self._placement = connection.placement
        self._context = context.get_admin_context()
        config.parse_args([__name__, *(
            '--config-file=%s' % (layout.etc / 'nova' / name)
            for name in ('common.conf', 'nova.conf'))])
        objects.register_all()
        self._client = query.SchedulerQueryClient()

    def ask(self, server, number):
        """Ask for a host that often, one request after the other.

        :param server: UUID of a server; each request is like the one for it
        :raises nova.exception.NoValidHost: if there is none
        """
        spec = objects.RequestSpec.get_by_instance_uuid(self._context, server)
        # Those of networks and devices, which are not stored.
        spec.requested_resources = []
        for _ in range(number):
            spec.instance_uuid = uuidutils.generate_uuid()
            self._client.select_destinations(
                self._context, spec, [spec.instance_uuid],
                return_objects=True, return_alternates=True)
            # It holds what was asked for by now.
            self._placement.delete(
                '/allocations/' + spec.instance_uuid).raise_for_status()
