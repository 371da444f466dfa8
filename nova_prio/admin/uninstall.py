# SPDX-License-Identifier: Apache-2.0

"""What of this package is left in a cloud: read, never changed."""

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

#: How many instances are in memory at once.
PAGE = 500

_TRAITS = traits.TRAITS
#: Metadata of aggregates that nobody but this package reads. 'priority' is a
#: key that clouds use for other things too: it counts where it says true.
_KEYS = ('priority_mix', aggregate_metadata.ORDINARY_KEY,
         'priority_weight_multiplier')
_SHARED_KEY = 'priority'
_SCOPE = 'aggregate_instance_extra_specs:'
#: Options of Nova whose values may name something of this package.
_NAMING = (('DEFAULT', 'compute_driver'),
           ('filter_scheduler', 'available_filters'),
           ('filter_scheduler', 'enabled_filters'),
           ('filter_scheduler', 'weight_classes'))
_OUR_OPTIONS = {option.name for option in our_conf.DEFAULT_OPTS}
_NAMES = ('nova_prio.', 'PriorityFilter', driver_alias.DRIVER)


class Leftover(typing.NamedTuple):
    """One thing that is left.

    ``name`` says which one of its ``kind``, ``holds`` what it has of this
    package, ``remedy`` how that is taken away.
    """

    kind: str
    name: str
    holds: str
    remedy: str


def find_leftovers(context, conf, paths):
    """Yield what is left, in the order in which it is best taken away.

    :param context: nova.context.RequestContext
    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param paths: files of options
    :raises OSError: where such a file cannot be read
    :raises oslo_config.cfg.ParseError: likewise
    """
    if not conf.api_database.connection:
        yield from _options(paths)
        yield Leftover(
            UNREAD, 'databases', '[api_database] connection is not set, as on '
            'a compute host: options alone were looked at.',
            'Run this where nova-manage runs, too.')
        return
    yield from _flavors(context)
    yield from _in_cells(context, _instances)
    # Those that are in no cell yet.
    for build in objects.BuildRequestList.get_all(context):
        yield from _of_instance(build.instance)
    yield from _options(paths)
    yield from _in_cells(context, _hosts)
    yield from _aggregate_keys(context)
    yield from _traits()


def _flavors(context):
    for flavor in objects.FlavorList.get_all(context, inactive=True):
        held = _of_flavor(flavor.extra_specs)
        if held:
            yield Leftover(
                FLAVOR, flavor.flavorid, held,
                'Unset it with "openstack flavor unset --property", or delete '
                'the flavor.')


def _of_flavor(extra_specs):
    """Return the extra specs that mean something to this package alone."""
    keys = {flavor_specs.EXTRA_SPEC,
            *(_SCOPE + key for key in aggregate_metadata.AGGREGATE_KEYS)}
    if mixed_cpus.names_both_classes(extra_specs):
        # Stock Nova refuses the two together.
        keys.update(flavor_specs.select_pinning_requests(extra_specs, 'PCPU'),
                    flavor_specs.select_pinning_requests(extra_specs, 'VCPU'))
    return ', '.join(
        '%s=%s' % (key, value) for key, value in sorted(extra_specs.items())
        if key in keys or (key.startswith('trait') and
                           key.partition(':')[2] in _TRAITS))


def _in_cells(context, look):
    """Yield the Remnants of each cell, and the cells that do not answer."""
    for cell in objects.CellMappingList.get_all(context):
        try:
            yield from look(context, cell)
        except host_inventory.DATABASE_ERRORS as error:
            yield Leftover(
                UNREAD, 'cell %s' % (cell.name or cell.uuid),
                '%s.' % str(error).strip().splitlines()[0].rstrip('.'),
                'See to its database, and run this again.')


def _instances(context, cell):
    """Yield the instances of a cell, one page in memory at a time.

    Those that are shelved, or deleted but not reclaimed yet, are among them,
    and in cell 0 those that found no host.
    """
    marker = None
    with nova_context.target_cell(context, cell) as cctxt:
        while page := list(objects.InstanceList.get_by_filters(
                cctxt, {'deleted': False, 'soft_deleted': True},
                sort_dir='asc', limit=PAGE, marker=marker,
                expected_attrs=['flavor'])):
            marker = page[-1].uuid
            # None of them is kept while the next page is read.
            while page:
                yield from _of_instance(page.pop(0))


def _of_instance(instance):
    for when, flavor in (
            ('', instance.flavor),
            ('until its resize is confirmed: ', instance.old_flavor),
            ('once it is resized: ', instance.new_flavor)):
        extra_specs = flavor and flavor.extra_specs or {}
        if flavor_specs.EXTRA_SPEC not in extra_specs:
            continue
        yield Leftover(
            INSTANCE, instance.uuid, '%s%s=%s%s, %s' % (
                when, flavor_specs.EXTRA_SPEC, extra_specs[flavor_specs.EXTRA_SPEC],
                ' (scheduler hint)' * flavor_specs.is_from_hint(extra_specs),
                'on host %s' % instance.host if instance.host
                else 'on no host'),
            _REMEDIES.get(instance.vm_state, _RESIZE))
        return


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


def _options(paths):
    for path in paths:
        for group, options in config_files.read_sections(path).items():
            for option, values in options.items():
                value = ','.join(values)
                names_ours = (group, option) in _NAMING and any(
                    name in value for name in _NAMES)
                if names_ours or group == our_conf.GROUP.name or (
                        group in ('DEFAULT', 'compute') and
                        option in _OUR_OPTIONS):
                    yield Leftover(
                        OPTION, path, '[%s] %s = %s' % (group, option, value),
                        '%s, and restart the services that read it.' % (
                            'Set it as it was before' if names_ours
                            else 'Take it out of the file'))


def _hosts(context, cell):
    """Yield the hosts of a cell that report: they run our driver."""
    for _, node in () if cell.is_cell0() else host_view.list_nodes(context, cell):
        if host_report.STATS_KEY in (node.stats or {}):
            yield Leftover(
                HOST, node.host, 'its nova-compute runs %s'
                % driver_alias.DRIVER,
                'Set [DEFAULT] compute_driver = libvirt.LibvirtDriver '
                'there, and restart nova-compute.')


def _aggregate_keys(context):
    for aggregate in objects.AggregateList.get_all(context):
        for key, value in sorted(aggregate.metadata.items()):
            if key in _KEYS or (key == _SHARED_KEY and
                                aggregate_metadata.is_marked(aggregate)):
                yield Leftover(
                    AGGREGATE_KEY, aggregate.name, '%s=%s' % (key, value),
                    'Unset it with "openstack aggregate unset --property %s '
                    '%s".' % (key, aggregate.name))


def _traits():
    try:
        # Some releases ask Placement at once.
        client = report.SchedulerReportClient()
        known = sorted(allocations.get_json(
            client, '/traits?name=in:%s' % ','.join(_TRAITS))['traits'])
        for trait in known:
            for provider in allocations.get_json(
                    client, '/resource_providers?required=%s' % trait
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
            'See to it, or to [placement] in nova.conf, and run this again.')
