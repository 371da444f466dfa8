# SPDX-License-Identifier: Apache-2.0

"""Call nova-scheduler of a live cloud as nova-conductor does.

A process can have only one configuration of Nova, so each cloud needs its own
process.
"""

from nova import config
from nova import context
from nova import objects
from nova.scheduler.client import query
from oslo_utils import uuidutils

from tests.live import catalog

_CLOUD = {}


def configure(layout):
    """Read the configuration of Nova's services, once in a process."""
    config.parse_args([__name__, *(
        '--config-file=%s' % (layout.etc / 'nova' / name)
        for name in ('common.conf', 'nova.conf'))])
    objects.register_all()
    _CLOUD.update(
        context=context.get_admin_context(),
        client=query.SchedulerQueryClient(),
        placement=catalog.connect(layout).placement)


def ask(flavor, image, number):
    """Ask for the hosts of new servers, one after the other.

    :param flavor: ID of the flavor
    :param image: UUID of the image
    :param number: number of servers
    :raises nova.exception.NoValidHost: if no host fits
    """
    ctxt = _CLOUD['context']
    flavor = objects.Flavor.get_by_flavor_id(ctxt, flavor)
    for _ in range(number):
        uuid = uuidutils.generate_uuid()
        spec = objects.RequestSpec.from_components(
            ctxt, uuid, objects.ImageMeta.from_dict({'id': image}), flavor,
            None, objects.InstancePCIRequests(requests=[]),
            {'scheduler_hints': {}}, None, None,
            security_groups=objects.SecurityGroupList(objects=[]))
        spec.project_id, spec.user_id = 'project', 'user'
        _CLOUD['client'].select_destinations(
            ctxt, spec, [uuid], return_objects=True, return_alternates=True)
        # nova-scheduler has created these allocations.
        _CLOUD['placement'].delete('/allocations/' + uuid).raise_for_status()
