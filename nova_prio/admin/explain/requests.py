# SPDX-License-Identifier: Apache-2.0

"""The requests to nova-scheduler for a new instance, and for a move."""

from __future__ import annotations

import typing

from keystoneauth1 import loading
from nova.compute import utils as compute_utils
from nova import context as nova_context
from nova import exception
from nova.image import glance
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_utils import uuidutils

from nova_prio.admin.audit import host_view
from nova_prio.api import flavor_preview
from nova_prio.model import flavor_specs
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from oslo_config import cfg


class ServerRefused(flavor_specs.RequestRefused):
    """The request of a server cannot be read; the text is one sentence."""


class ImageUnreadable(Exception):
    """The image cannot be read; the text is the cause, without a period."""


class ServerRequest(typing.NamedTuple):
    """A server.

    ``spec`` is the request for the next move of the server or, if it was never
    on a host, for an equal new server. ``host`` is the host of the server or
    None, ``fault`` the message of its last fault or None.
    """

    spec: objects.RequestSpec
    host: str | None = None
    fault: str | None = None


def read_server(context: nova_context.RequestContext,
                uuid: str) -> ServerRequest:
    """Return a server with its request.

    :raises ServerRefused: if the server is unknown, or if its cell does not
        answer
    """
    try:
        spec = objects.RequestSpec.get_by_instance_uuid(context, uuid)
        instance = host_view.find_instance(context, uuid)
        if instance is None:
            raise exception.InstanceNotFound(instance_id=uuid)
    except (exception.RequestSpecNotFound,
            exception.InstanceNotFound) as error:
        raise ServerRefused("SERVER is '%s'; allowed are UUIDs of servers."
                            % uuid) from error
    except host_view.CellUnreachable as error:
        raise ServerRefused(
            "SERVER is '%s', in a cell that does not answer. Check the "
            'database of the cell.' % uuid) from error
    except host_view.NotScheduledYet:
        # The server is in no cell yet, so there is nothing to move.
        return ServerRequest(_make_new(spec))
    # The message of its last fault.
    fault = None
    if instance.vm_state == 'error':
        fault = instance.fault and instance.fault.message
        if instance.host is None:
            # No host has taken the server, so there is nothing to move.
            return ServerRequest(_make_new(spec), fault=fault)
    return ServerRequest(spec=_make_move(context, spec, instance),
                         host=instance.host, fault=fault)


def read_instance(context: nova_context.RequestContext,
                  uuid: str) -> objects.Instance | None:
    """Return an instance with flavor and NUMA topology, None if deleted."""
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(context, uuid)
        with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
            return objects.Instance.get_by_uuid(
                cctxt, uuid, expected_attrs=['flavor', 'numa_topology'])
    except (exception.InstanceMappingNotFound, exception.InstanceNotFound):
        return None


def _make_new(spec: objects.RequestSpec) -> objects.RequestSpec:
    """Change the request of a server into that of an equal new server.

    :param spec: as Nova stores it for the server
    :returns: the changed ``spec``
    """
    # Nova does not know this UUID, so that the instance counts as new.
    spec.instance_uuid = uuidutils.generate_uuid()
    spec.requested_destination = None
    return _set_unstored_fields(spec)


def _make_move(context: nova_context.RequestContext,
               spec: objects.RequestSpec,
               instance: objects.Instance) -> objects.RequestSpec:
    """Change the request of a server into that of a move of the server.

    Change the fields as nova-conductor does before it asks nova-scheduler.

    :param spec: as Nova stores it for the server
    :param instance: the server. If it is on no host, the move is to unshelve
        it.
    :returns: the changed ``spec``
    """
    spec.instance_uuid = instance.uuid
    spec.reset_forced_destinations()
    mapping = objects.InstanceMapping.get_by_instance_uuid(
        context, instance.uuid)
    # Older releases of Nova did not store whether the root disk is a volume.
    if 'is_bfv' not in spec:
        with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
            spec.is_bfv = compute_utils.is_volume_backed_instance(
                cctxt, instance)
    if instance.host:
        spec.ignore_hosts = [instance.host]
    # Nova moves and unshelves a server within its cell.
    spec.requested_destination = objects.Destination(
        cell=mapping.cell_mapping)
    return _set_unstored_fields(spec)


def _set_unstored_fields(spec: objects.RequestSpec) -> objects.RequestSpec:
    """Set the fields of a request that Nova does not store; return it."""
    spec.num_instances = 1
    spec.retry = None
    if 'is_bfv' not in spec:
        spec.is_bfv = False
    # The groups of resources for ports are in Neutron, and omitted here.
    spec.requested_resources = []
    spec.generate_request_groups_from_pci_requests()
    return spec


def build_request(context: nova_context.RequestContext,
                  conf: cfg.ConfigOpts, flavor: objects.Flavor,
                  hints: dict[str, str],
                  image: dict[str, typing.Any] | None,
                  ) -> objects.RequestSpec:
    """Return the request for a new instance, as nova-api makes it.

    :param hints: scheduler hints, such as {'priority': 'high'}
    :param image: dict, the image as Nova reads it from Glance, or None
    :raises nova_prio.model.flavor_specs.RequestRefused: if flavor, image and
        hints contradict each other
    :raises nova.exception.NovaException: if stock Nova refuses the request
    """
    # Nova may require that the host supports the format of the image, and
    # each host supports this one.
    image_meta = objects.ImageMeta.from_dict(image or {'disk_format': 'raw'})
    # nova-api writes the priority, which may be from the hints, into the copy
    # of the flavor that is embedded in the instance.
    embedded, topology = flavor_preview.fit_request(flavor, image_meta, hints)
    pci_policy = hardware.get_pci_numa_policy_constraint(embedded, image_meta)
    pci_requests = pci_request.get_pci_requests_from_flavor(
        embedded, affinity_policy=pci_policy)
    spec = objects.RequestSpec.from_components(
        context, uuidutils.generate_uuid(), image_meta, embedded, topology,
        pci_requests, filter_properties={'scheduler_hints': hints},
        instance_group=None, availability_zone=conf.default_schedule_zone,
        security_groups=objects.SecurityGroupList(objects=[]),
        # Nova's request filter for projects fails without a project.
        project_id=uuidutils.generate_uuid(dashed=False))
    spec.is_bfv = False
    return spec


def read_image(conf: cfg.ConfigOpts, image_id: str) -> dict[str, typing.Any]:
    """Return an image as Nova reads it from Glance.

    Nova reads an image with the token of the user. A command has no token, so
    it authenticates as the user in ``[placement]``.

    :raises ImageUnreadable: if there is no such image, if the user may not
        read it, or if Glance does not answer
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, 'placement')
        return glance.API().get(nova_context.RequestContext(
            is_admin=True, user_auth_plugin=auth), image_id)
    except (exception.NovaException, *allocations.CLIENT_ERRORS) as error:
        raise ImageUnreadable(str(error).rstrip('.')) from error
