# SPDX-License-Identifier: Apache-2.0

"""Find the leftovers of this package in a cloud; change nothing."""

import functools
import typing

from nova.compute import vm_states
from nova import context as nova_context
from nova import objects
from nova.scheduler.client import report

from nova_prio.admin.audit import host_view
from nova_prio.admin import config_files
from nova_prio.admin import host_inventory
from nova_prio import conf as our_conf
from nova_prio.model import aggregate_metadata
from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from nova_prio.placement import traits
from nova_prio.virt import driver_alias

FLAVOR, INSTANCE, OPTION, HOST = 'flavor', 'instance', 'option', 'host'
AGGREGATE_KEY, TRAIT, UNREAD = 'aggregate key', 'trait', 'unread'

#: The most instances in memory at a time.
PAGE = 500

#: Aggregate metadata that only this package reads. Clouds use the key
#: 'priority' for other purposes, too: it counts only if it is true.
_KEYS = ('priority_mix', aggregate_metadata.ORDINARY_KEY,
         'priority_weight_multiplier')
_AMBIGUOUS_KEY = 'priority'
_FLAVOR_KEYS = {flavor_specs.EXTRA_SPEC, *(
    'aggregate_instance_extra_specs:' + key
    for key in aggregate_metadata.AGGREGATE_KEYS)}
#: Options of Nova whose values may name classes of this package.
_CLASS_OPTIONS = (('DEFAULT', 'compute_driver'),
                  ('filter_scheduler', 'available_filters'),
                  ('filter_scheduler', 'enabled_filters'),
                  ('filter_scheduler', 'weight_classes'))
_CLASS_NAMES = ('nova_prio.', 'PriorityFilter', driver_alias.DRIVER)
_OWN_OPTIONS = {option.name for option in our_conf.DEFAULT_OPTS}

_RESIZE = ('With [nova_prio] enabled = false in nova-api, resize it to a '
           'flavor without %s, or delete it.' % flavor_specs.EXTRA_SPEC)
_REMEDIES = {
    vm_states.SOFT_DELETED: 'Delete it with "openstack server delete '
                            '--force", or wait until nova-compute reclaims '
                            'it.',
    vm_states.SHELVED_OFFLOADED: 'Unshelve and resize it, or delete it.',
    vm_states.RESIZED: 'Confirm or revert its resize.',
    vm_states.SHELVED: 'Unshelve and resize it, or delete it.',
    vm_states.ERROR: 'Delete it.'}


class Leftover(typing.NamedTuple):
    """One leftover, a row of the list.

    ``content`` is the part of the object ``name`` that belongs to this
    package, ``remedy`` the way to remove that.
    """

    kind: str
    name: str
    content: str
    remedy: str


def find_leftovers(context, conf, paths):
    """Yield each Leftover, in the order in which to remove them.

    :param context: nova.context.RequestContext
    :param paths: configuration files to check
    :raises OSError, oslo_config.cfg.ParseError: if a file cannot be read
    """
    if not conf.api_database.connection:
        yield from _check_options(paths)
        yield Leftover(
            UNREAD, 'databases', '[api_database] connection is not set, as on '
            'a compute host: only options were checked.',
            'Run this where nova-manage runs, too.')
        return
    for flavor in objects.FlavorList.get_all(context, inactive=True):
        yield from _check_flavor(flavor)
    yield from _check_cells(context, _check_instances)
    # Instances that are in no cell yet have a build request.
    for build in objects.BuildRequestList.get_all(context):
        yield from _check_instance(build.instance)
    yield from _check_options(paths)
    yield from _check_cells(context, _check_hosts)
    for aggregate in objects.AggregateList.get_all(context):
        yield from _check_aggregate(aggregate)
    yield from _check_traits()


def _check_flavor(flavor):
    """Yield the extra specs that only this package understands."""
    keys = set(_FLAVOR_KEYS)
    if mixed_cpus.requests_pcpu_and_vcpu(flavor.extra_specs):
        # Stock Nova refuses a flavor with both classes.
        for resource_class in 'PCPU', 'VCPU':
            keys.update(flavor_specs.select_pinning_requests(
                flavor.extra_specs, resource_class))
    content = ', '.join(
        '%s=%s' % (key, value) for key, value in sorted(
            flavor.extra_specs.items())
        if key in keys or (key.startswith('trait') and
                           key.partition(':')[2] in traits.ALL))
    if content:
        yield Leftover(FLAVOR, flavor.flavorid, content,
                       'Unset it with "openstack flavor unset --property", or '
                       'delete the flavor.')


def _check_cells(context, check):
    """Yield the leftovers of each cell, and the cells that do not answer."""
    for cell in objects.CellMappingList.get_all(context):
        try:
            yield from check(context, cell)
        except host_inventory.DATABASE_ERRORS as error:
            yield Leftover(
                UNREAD, 'cell %s' % (cell.name or cell.uuid),
                '%s.' % str(error).strip().splitlines()[0].rstrip('.'),
                'Check its database, and run this again.')


def _check_instances(context, cell):
    """Yield the instances of a cell; cell 0 has those without a host.

    This includes shelved instances, and deleted ones until their reclaim.
    """
    with nova_context.target_cell(context, cell) as cctxt:
        for instance in host_inventory.iterate_pages(
                functools.partial(
                    objects.InstanceList.get_by_filters, cctxt,
                    {'deleted': False, 'soft_deleted': True}, sort_dir='asc',
                    expected_attrs=['flavor']), 'uuid', PAGE):
            yield from _check_instance(instance)


def _check_instance(instance):
    for condition, flavor in (
            ('', instance.flavor),
            ('until its resize is confirmed: ', instance.old_flavor),
            ('once it is resized: ', instance.new_flavor)):
        extra_specs = flavor and flavor.extra_specs or {}
        if flavor_specs.EXTRA_SPEC in extra_specs:
            yield Leftover(
                INSTANCE, instance.uuid, '%s%s=%s%s, %s' % (
                    condition, flavor_specs.EXTRA_SPEC,
                    extra_specs[flavor_specs.EXTRA_SPEC],
                    ' (scheduler hint)'
                    if flavor_specs.is_from_hint(extra_specs) else '',
                    'on host %s' % instance.host if instance.host
                    else 'on no host'),
                _REMEDIES.get(instance.vm_state, _RESIZE))
            return


def _check_options(paths):
    for path in paths:
        for group, options in config_files.read_sections(path).items():
            for option, values in options.items():
                value = ','.join(values)
                if (group, option) in _CLASS_OPTIONS and any(
                        name in value for name in _CLASS_NAMES):
                    remedy = 'Set it as it was before'
                elif group == our_conf.GROUP.name or (
                        group in ('DEFAULT', 'compute') and
                        option in _OWN_OPTIONS):
                    remedy = 'Remove it from the file'
                else:
                    continue
                yield Leftover(
                    OPTION, path, '[%s] %s = %s' % (group, option, value),
                    '%s, and restart the services that read it.' % remedy)


def _check_hosts(context, cell):
    """Yield the hosts of a cell that have a report, so run our driver."""
    for _, node in host_view.list_nodes(context, cell):
        if host_report.STATS_KEY in (node.stats or {}):
            yield Leftover(
                HOST, node.host, 'its nova-compute runs %s'
                % driver_alias.DRIVER,
                'Set [DEFAULT] compute_driver = libvirt.LibvirtDriver '
                'there, and restart nova-compute.')


def _check_aggregate(aggregate):
    for key, value in sorted(aggregate.metadata.items()):
        if key in _KEYS or (key == _AMBIGUOUS_KEY and
                            aggregate_metadata.is_marked(aggregate)):
            yield Leftover(
                AGGREGATE_KEY, aggregate.name, '%s=%s' % (key, value),
                'Unset it with "openstack aggregate unset --property %s %s".'
                % (key, aggregate.name))


def _check_traits():
    try:
        # In some releases the client asks Placement when it is made.
        client = report.SchedulerReportClient()
        known = sorted(allocations.get_json(
            client, '/traits?name=in:' + ','.join(traits.ALL))['traits'])
        for trait in known:
            for provider in allocations.get_json(
                    client, '/resource_providers?required=' + trait
                    )['resource_providers']:
                yield Leftover(
                    TRAIT, provider['name'], trait, 'Set the traits of '
                    'resource provider %s without it, with "openstack '
                    'resource provider trait set".' % provider['uuid'])
        for trait in known:
            yield Leftover(
                TRAIT, trait, 'known to Placement', 'Delete it with '
                '"openstack trait delete" once no resource provider has it.')
    except (allocations.PlacementRefused, *allocations.CLIENT_ERRORS) as error:
        yield Leftover(
            UNREAD, 'Placement', '%s.' % str(error).rstrip('.'),
            'Check Placement and [placement] in nova.conf, and run this '
            'again.')
