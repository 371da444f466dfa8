# SPDX-License-Identifier: Apache-2.0

"""Find the leftovers of this package in a cloud; change nothing."""

from __future__ import annotations

from collections import abc
import functools
import shlex
import typing

from nova.compute import vm_states
from nova import context as nova_context
from nova import objects
from oslo_config import cfg

from nova_prio.admin import config_files
from nova_prio.admin import host_inventory
from nova_prio import conf as our_conf
from nova_prio.model import aggregate_metadata
from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus
from nova_prio.model import traits
from nova_prio.placement import allocations
from nova_prio.placement import authentication
from nova_prio.virt import driver_alias

FLAVOR, INSTANCE, OPTION, HOST = 'flavor', 'instance', 'option', 'host'
AGGREGATE_KEY, TRAIT, UNREAD = 'aggregate key', 'trait', 'unread'

#: Number of instances that one query reads.
PAGE = 500

#: Aggregate metadata that only this package reads. Clouds use the key
#: 'priority' for other purposes, too: it counts only in an aggregate that is
#: marked for priority instances.
_KEYS = ('priority_mix', aggregate_metadata.ORDINARY_KEY,
         *aggregate_metadata.MULTIPLIER_KEYS)
_AMBIGUOUS_KEY = 'priority'
_FLAVOR_KEYS = {flavor_specs.EXTRA_SPEC} | {
    'aggregate_instance_extra_specs:' + key
    for key in aggregate_metadata.AGGREGATE_KEYS}
#: Parts of the names of the driver, filters and weighers of this package, in
#: the values of ``PLUGIN_OPTIONS``.
_PLUGIN_NAME_PARTS = ('nova_prio.', 'PriorityFilter', driver_alias.DRIVER)
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

    ``kind`` is the kind of the object, ``name`` its name. ``content`` is the
    part of the object that belongs to this package, ``remedy`` the way to
    remove this part.
    """

    kind: str
    name: str
    content: str
    remedy: str


_Leftovers = abc.Iterator[Leftover]


def find_leftovers(
        context: nova_context.RequestContext, conf: cfg.ConfigOpts,
        paths: abc.Collection[str]) -> _Leftovers:
    """Yield each Leftover, in the order in which to remove them.

    A leftover is something in the cloud that belongs to this package, such as
    an extra spec of a flavor. A part of the cloud that cannot be read counts
    as one too.

    :param context: targets no cell
    :param conf: Nova's configuration
    :param paths: paths of the configuration files to check
    :raises OSError, oslo_config.cfg.ParseError: if a file cannot be read
    """
    if not conf.api_database.connection:
        yield from _check_options(paths)
        yield Leftover(
            UNREAD, 'databases',
            content='[api_database] connection is not set, as on a compute '
            'host: only options were checked.',
            remedy='Run this where nova-manage runs, too.')
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


def _check_flavor(flavor: objects.Flavor) -> _Leftovers:
    """Yield a Leftover if extra specs of a flavor need this package."""
    extra_specs = flavor.extra_specs
    keys = set()
    for key in extra_specs:
        # A key such as "trait:NAME" or "trait1:NAME" requires a trait.
        prefix, _, name = key.partition(':')
        requires_our_trait = prefix.startswith('trait') and name in traits.ALL
        if key in _FLAVOR_KEYS or requires_our_trait:
            keys.add(key)
    # Stock Nova refuses a flavor that requests both PCPU and VCPU, which this
    # package allows. The keys of these requests count then.
    if mixed_cpus.requests_pcpu_and_vcpu(extra_specs):
        keys.update(flavor_specs.select_pinning_requests(
            extra_specs, 'PCPU', 'VCPU'))
    if keys:
        content = ', '.join(
            '%s=%s' % (key, extra_specs[key]) for key in sorted(keys))
        yield Leftover(
            FLAVOR, flavor.flavorid, content=content, remedy='Unset it with '
            '"openstack flavor unset --property", or delete the flavor.')


def _check_cells(
        context: nova_context.RequestContext,
        check: abc.Callable[[nova_context.RequestContext], _Leftovers],
) -> _Leftovers:
    """Yield the leftovers of each cell, and the cells that do not answer.

    A Leftover is something that belongs to this package, and must be removed
    before the package is.

    :param check: function of a context, which targets the cell; it yields the
        leftovers of the cell
    """
    for cell in objects.CellMappingList.get_all(context):
        try:
            with nova_context.target_cell(context, cell) as cctxt:
                yield from check(cctxt)
        except host_inventory.DATABASE_ERRORS as error:
            yield Leftover(
                UNREAD, 'cell %s' % (cell.name or cell.uuid),
                content='%s.' % host_inventory.format_first_line(error),
                remedy='Check its database, and run this again.')


def _check_instances(context: nova_context.RequestContext) -> _Leftovers:
    """Yield a Leftover for each instance of a cell that has a priority.

    Cell 0 has the instances that failed to schedule. Soft-deleted instances
    count, too, until nova-compute reclaims them.
    """
    read_page = functools.partial(
        objects.InstanceList.get_by_filters, context,
        {'deleted': False, 'soft_deleted': True}, sort_dir='asc',
        expected_attrs=['flavor'])
    for instance in host_inventory.iterate_pages(read_page, 'uuid', PAGE):
        yield from _check_instance(instance)


def _check_instance(instance: objects.Instance) -> _Leftovers:
    """Yield a Leftover if one of the flavors of an instance has a priority.

    Without this package, nothing gives effect to the priority. It is left over
    in the cloud until somebody removes it.

    nova-api has written the priority into the copy of the flavor that the
    instance has. The user may have requested the priority with a scheduler
    hint. During a resize, the instance has an old or a new flavor too.
    """
    for condition, flavor in (
            ('', instance.flavor),
            ('until its resize is confirmed: ', instance.old_flavor),
            ('once it is resized: ', instance.new_flavor)):
        extra_specs = flavor.extra_specs if flavor else {}
        if flavor_specs.EXTRA_SPEC in extra_specs:
            content = '%s%s=%s' % (condition, flavor_specs.EXTRA_SPEC,
                                   extra_specs[flavor_specs.EXTRA_SPEC])
            # For a hint, nova-api has written one more extra spec.
            if flavor_specs.is_from_hint(extra_specs):
                content += ' (scheduler hint)'
            host = 'host ' + instance.host if instance.host else 'no host'
            yield Leftover(
                INSTANCE, instance.uuid, content='%s, on %s' % (content, host),
                remedy=_REMEDIES.get(instance.vm_state, _RESIZE))
            # One Leftover for each instance is enough.
            return


def _check_options(paths: abc.Iterable[str]) -> _Leftovers:
    """Yield a Leftover for each option of this package in some files.

    An option of Nova counts if its value names the driver, a filter or a
    weigher of this package.

    :param paths: paths of configuration files
    """
    for path in paths:
        for group, options in config_files.read_sections(path).items():
            for option, values in options.items():
                value = ','.join(values)
                names_our_plugin = any(
                    part in value for part in _PLUGIN_NAME_PARTS)
                # cpu_priority_mix_enable is in Nova's group DEFAULT, and
                # oslo.config also reads it from [compute].
                is_our_option = group == our_conf.GROUP.name or (
                    group in ('DEFAULT', 'compute') and option in _OWN_OPTIONS)
                is_plugin_option = (
                    (group, option) in config_files.PLUGIN_OPTIONS)
                if is_plugin_option and names_our_plugin:
                    remedy = 'Set it as it was before'
                elif is_our_option:
                    remedy = 'Remove it from the file'
                else:
                    continue
                yield Leftover(
                    OPTION, path,
                    content='[%s] %s = %s' % (group, option, value),
                    remedy='%s, and restart the services that read it.'
                    % remedy)


def _check_hosts(context: nova_context.RequestContext) -> _Leftovers:
    """Yield a Leftover for each host of a cell with our compute driver.

    :param context: targets the cell
    """
    # Which host has the driver does not depend on aggregates: pass none.
    for host in host_inventory.iterate_hosts(context, aggregates=()):
        if host.has_our_driver:
            yield Leftover(
                HOST, host.name,
                content='its nova-compute runs ' + driver_alias.DRIVER,
                remedy='Set [DEFAULT] compute_driver = libvirt.LibvirtDriver '
                'there, and restart nova-compute.')


def _check_aggregate(aggregate: objects.Aggregate) -> _Leftovers:
    """Yield a Leftover for each key of an aggregate that we read."""
    for key, value in sorted(aggregate.metadata.items()):
        # Other software, too, may use the ambiguous key: it counts only if the
        # aggregate is marked for priority instances.
        if key in _KEYS or (key == _AMBIGUOUS_KEY and
                            aggregate_metadata.allows_priority(aggregate)):
            yield Leftover(
                AGGREGATE_KEY, aggregate.name, content='%s=%s' % (key, value),
                remedy='Unset it with "openstack aggregate unset --property '
                '%s %s".' % (key, shlex.quote(aggregate.name)))


def _check_traits() -> _Leftovers:
    """Yield a Leftover for each provider with our traits, then for each trait.

    Placement deletes a trait only if no provider has it.
    """
    try:
        client = authentication.make_placement_client()
        answer = allocations.get_json(
            client, '/traits?name=in:' + ','.join(traits.ALL))
        # Placement keeps a trait of this package until it is deleted.
        known = sorted(answer['traits'])
        for trait in known:
            for provider in allocations.list_providers(client, trait):
                yield Leftover(
                    TRAIT, provider['name'], content=trait,
                    remedy='Run "nova-prio audit --fix", which keeps the '
                    'other traits. If the resource provider %s is of no host '
                    'of Nova, delete it.' % provider['uuid'])
        for trait in known:
            yield Leftover(
                TRAIT, trait, content='known to Placement',
                remedy='Run "openstack trait delete %s", once no resource '
                'provider has it.' % trait)
    except (allocations.PlacementRefused, *allocations.CLIENT_ERRORS) as error:
        yield Leftover(
            UNREAD, 'Placement', content='%s.' % str(error).rstrip('.'),
            remedy='Check Placement and [placement] in nova.conf, and run '
            'this again.')
