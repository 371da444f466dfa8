# SPDX-License-Identifier: Apache-2.0

"""Copy the records of a host with its instances to many hosts.

The copies are in the databases of Nova and Placement. No service runs on the
copied hosts.
"""

import typing
import uuid

from nova import context
from nova.db.api import api
from nova.db.api import models as api_models
from nova.db.main import api as main
from nova.db.main import models as main_models
from nova import objects
from placement.db.sqlalchemy import models as placement_models
from placement import db_api as placement
import sqlalchemy

#: Other tables with rows of an instance, and with rows of a resource provider.
_OF_INSTANCE = (main_models.InstanceExtra, main_models.InstanceInfoCache,
                main_models.InstanceSystemMetadata,
                main_models.BlockDeviceMapping)
_OF_PROVIDER = (placement_models.Inventory,
                placement_models.ResourceProviderTrait,
                placement_models.ResourceProviderAggregate)


class Host(typing.NamedTuple):
    """A host: its number, 0 for the first, and the UUIDs of its records.

    ``uuid`` is the UUID of the compute node and of the resource provider.
    """

    number: int
    name: str
    uuid: str
    instances: list


def copy_host(mapping, instances, size):
    """Copy a host with its instances and return a list of Host.

    :param mapping: nova.objects.HostMapping of the host
    :param instances: list of the UUIDs of its instances
    :param size: number of hosts, the first one included
    """
    with context.target_cell(context.get_admin_context(),
                             mapping.cell_mapping) as cctxt:
        node, = objects.ComputeNodeList.get_all_by_host(cctxt, mapping.host)
        engine = main.get_engine(context=cctxt)
    first = Host(0, mapping.host, node.uuid, instances)
    others = [
        Host(number, '%s-%d' % (mapping.host, number), str(uuid.uuid4()),
             [str(uuid.uuid4()) for _ in instances])
        for number in range(1, size)]
    for copy_records, database in (
            (_copy_in_cell, engine), (_copy_in_api, api.get_engine()),
            (_copy_in_placement, placement.get_placement_engine())):
        with database.begin() as connection:
            copy_records(connection, first, others)
    return [first, *others]


def _copy_in_cell(connection, first, others):
    last_id = _get_last_id(connection, main_models.ComputeNode)
    _copy(connection, main_models.ComputeNode, {'uuid': first.uuid}, [
        {'id': last_id + host.number, 'host': host.name, 'uuid': host.uuid,
         'hypervisor_hostname': host.name} for host in others])
    _copy(connection, main_models.Service,
          {'host': first.name, 'binary': 'nova-compute'}, [
              {'uuid': str(uuid.uuid4()), 'host': host.name}
              for host in others])
    for index, instance in enumerate(first.instances):
        _copy(connection, main_models.Instance, {'uuid': instance}, [
            {'uuid': host.instances[index], 'host': host.name,
             'node': host.name, 'launched_on': host.name,
             'compute_id': last_id + host.number} for host in others])
        for model in _OF_INSTANCE:
            _copy(connection, model, {'instance_uuid': instance}, [
                {'instance_uuid': host.instances[index]} for host in others])


def _copy_in_api(connection, first, others):
    for model in api_models.HostMapping, api_models.AggregateHost:
        _copy(connection, model, {'host': first.name}, [
            {'host': host.name} for host in others])
    for index, instance in enumerate(first.instances):
        _copy(connection, api_models.InstanceMapping,
              {'instance_uuid': instance}, [
                  {'instance_uuid': host.instances[index]}
                  for host in others])


def _copy_in_placement(connection, first, others):
    table = placement_models.ResourceProvider.__table__
    first_id = connection.execute(sqlalchemy.select(
        table.c.id).filter_by(uuid=first.uuid)).scalar_one()
    last_id = _get_last_id(connection, placement_models.ResourceProvider)
    _copy(connection, placement_models.ResourceProvider,
          {'uuid': first.uuid}, [
              {'id': last_id + host.number, 'uuid': host.uuid,
               'root_provider_id': last_id + host.number, 'name': host.name}
              for host in others])
    for model in _OF_PROVIDER:
        _copy(connection, model, {'resource_provider_id': first_id}, [
            {'resource_provider_id': last_id + host.number}
            for host in others])
    for index, instance in enumerate(first.instances):
        _copy(connection, placement_models.Consumer, {'uuid': instance}, [
            {'uuid': host.instances[index]} for host in others])
        _copy(connection, placement_models.Allocation,
              {'consumer_id': instance}, [
                  {'consumer_id': host.instances[index],
                   'resource_provider_id': last_id + host.number}
                  for host in others])


def _get_last_id(connection, model):
    """Return the largest ID in a table."""
    return connection.execute(sqlalchemy.select(
        sqlalchemy.func.max(model.__table__.c.id))).scalar_one()


def _copy(connection, model, where, changes):
    """Copy rows of a table once for each dict of changed columns.

    :param where: dict, column -> value, that selects the rows
    :param changes: list of dict, column -> new value; a copy without a change
        of ``id`` or ``uuid`` gets a new one
    """
    table = model.__table__
    rows = [{key: value for key, value in row.items() if key != 'id'}
            for row in connection.execute(sqlalchemy.select(
                table).filter_by(**where)).mappings()]
    copied = [{**row, **({'uuid': str(uuid.uuid4())} if 'uuid' in row else {}),
               **change} for row in rows for change in changes]
    if copied:
        connection.execute(table.insert(), copied)
