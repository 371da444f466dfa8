# SPDX-License-Identifier: Apache-2.0

"""Check the host aggregates that priority instances depend on.

Aggregates can change at run time, so these faults stop no service. In all
functions, ``aggregates`` are all host aggregates of the cloud, and ``hosts``
are all hosts.
"""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.compat import interfaces
from nova_prio.model import aggregate_metadata
from nova_prio.scheduler import scheduler_checks
from nova_prio.virt import driver_alias

if typing.TYPE_CHECKING:
    from nova import objects
    from oslo_config import cfg

    from nova_prio.admin import host_inventory

_KEY, _AMBIGUOUS_KEY = aggregate_metadata.AGGREGATE_KEYS
#: Maximum number of hosts that a sentence names.
_MAX_NAMES = 10


def find_warnings(
        conf: cfg.ConfigOpts, services: abc.Container[str],
        aggregates: abc.Collection[objects.Aggregate],
        hosts: abc.Collection[host_inventory.HostRecord],
        all_hosts_known: bool) -> abc.Iterator[str]:
    """Yield the faults of the host aggregates, one sentence each.

    Only nova-compute with the driver of this package writes a report of the
    CPUs of its host. A mix host is one where low-priority instances may also
    run on the dedicated CPUs. A host has a problem if nova-compute has not
    registered it yet, or if its report cannot be read.

    :param conf: Nova's configuration
    :param services: names of the services whose configuration is in conf
    :param all_hosts_known: whether all cells answered
    """
    for host in hosts:
        if not host.is_registered:
            yield ('Host %s gets no instance, for %s; see the log of '
                   'nova-compute there.' % (host.name, host.problem))
        elif host.problem:
            yield ('Host %s gets no priority instance, for %s; install the '
                   'release of nova-prio there that nova-scheduler has.'
                   % (host.name, host.problem))
    reports = {host.name: host.report for host in hosts if host.report}
    # Mix hosts that may sell no vCPU to a low-priority instance.
    without_low = [name for name, report in reports.items()
                   if report.mix and not report.sellable.low]
    if without_low:
        yield ('%s may sell no low-priority vCPU with the CPU allocation '
               'ratio in force; set a larger [DEFAULT] cpu_allocation_ratio '
               'there.' % _format_names(without_low))
    names = {host.name for host in hosts}
    with_problem = {host.name for host in hosts if host.problem}
    for aggregate in aggregates:
        members = set(aggregate.hosts)
        for key, value in aggregate_metadata.find_misread_metadata(
                aggregate).items():
            # Other software may use the ambiguous key "priority" with other
            # values: it counts only on hosts with the driver.
            if key != _AMBIGUOUS_KEY or members & reports.keys():
                yield ("Host aggregate '%s' has the metadata %s=%s, which is "
                       'neither true nor false; set it to one of them.'
                       % (aggregate.name, key, value))
        # A host in a cell that does not answer may run the driver.
        known = members if all_hosts_known else members & names
        # No report and no problem: these hosts have another driver.
        without_driver = known - reports.keys() - with_problem
        if without_driver and aggregate_metadata.allows_priority(aggregate):
            yield ("%s of the host aggregate '%s' for priority instances "
                   "does not run '%s' and gets no priority instance; set "
                   '[DEFAULT] compute_driver to it there, with nova-prio '
                   'installed, or remove the host from the aggregate.'
                   % (_format_names(without_driver), aggregate.name,
                      driver_alias.DRIVER))
    is_any_allowing = False
    # Hosts with the driver, but in no aggregate that allows priority.
    unmarked = set(reports)
    for aggregate in aggregates:
        if aggregate_metadata.allows_priority(aggregate):
            is_any_allowing = True
            unmarked.difference_update(aggregate.hosts)
    if unmarked:
        yield ('%s runs %s, but gets no priority instance, being in no host '
               'aggregate with the metadata %s=true; add it to one.'
               % (_format_names(unmarked), driver_alias.DRIVER, _KEY))
    elif not is_any_allowing:
        yield ('No host aggregate has the metadata %s=true, which priority '
               'instances need; set it on one with hosts that run %s.'
               % (_KEY, driver_alias.DRIVER))
    if interfaces.SCHEDULER in services:
        yield from _find_weigher_warnings(conf, aggregates)


def find_mirror_warnings(
        aggregates: abc.Iterable[objects.Aggregate],
        hosts: abc.Collection[host_inventory.HostRecord],
) -> abc.Iterator[str]:
    """Yield the differences between the aggregates of Nova and of Placement.

    Compare the aggregates that restrict requests: Placement offers their hosts
    only to some priorities. Send one request to Placement for each of them,
    not for each host.
    """
    from nova_prio.placement import allocations
    from nova_prio.placement import authentication
    compared = [aggregate for aggregate in aggregates
                if aggregate_metadata.restricts_requests(aggregate)]
    if not compared:
        return
    try:
        client = authentication.make_placement_client()
        for aggregate in compared:
            url = '/resource_providers?member_of=' + aggregate.uuid
            providers = {provider['uuid'] for provider in allocations.get_json(
                client, url)['resource_providers']}
            yield from _compare_mirror(aggregate, hosts, providers)
    except (allocations.PlacementRefused, *allocations.CLIENT_ERRORS) as error:
        yield ('The aggregates of Placement cannot be compared with the host '
               'aggregates: %s; see [placement] in nova.conf, and run this '
               'again.' % ' '.join(str(error).split()).rstrip('.'))


def _compare_mirror(
        aggregate: objects.Aggregate,
        hosts: abc.Collection[host_inventory.HostRecord],
        providers: abc.Container[str]) -> abc.Iterator[str]:
    """Yield the differences between an aggregate in Nova and in Placement.

    Placement offers a host to priority instances only if it is in an aggregate
    that allows them, and to new ordinary instances only if it is in none that
    excludes these. Placement decides by its own copy of the aggregates.

    :param providers: UUIDs of the resource providers that the aggregate has
        in Placement
    """
    # A host may have several compute nodes, each with a resource provider
    # that has the UUID of the node.
    missing = {host.name for host in hosts if host.name in aggregate.hosts and
               host.node.uuid not in providers}
    if missing:
        # Clauses such as "offers it to no priority instance": the rule of the
        # aggregate decides which of the two texts applies.
        effect = _format_effect(
            aggregate, offered_if_allowed='no priority instance',
            offered_if_excluded='new ordinary instances')
        yield ("%s of the host aggregate '%s' is not in that aggregate in "
               'Placement, which %s; run "nova-manage placement '
               'sync_aggregates".' % (
                   _format_names(missing), aggregate.name, effect))
    surplus = {host.name for host in hosts if host.node.uuid in providers and
               host.name not in aggregate.hosts}
    if surplus:
        # Clauses, as above.
        effect = _format_effect(
            aggregate, offered_if_allowed='priority instances',
            offered_if_excluded='no new ordinary instance')
        yield ("%s is not in the host aggregate '%s', but in that aggregate "
               'in Placement, which %s; run "nova-prio audit --fix", or take '
               'it out with "openstack resource provider aggregate set".' % (
                   _format_names(surplus), aggregate.name, effect))


def _format_effect(aggregate: objects.Aggregate, offered_if_allowed: str,
                   offered_if_excluded: str) -> str:
    """Return to whom Placement offers a host by mistake, as clauses.

    The host is in the aggregate either only in Nova, or only in Placement.

    :param offered_if_allowed: to whom Placement offers the host if the
        aggregate allows priority instances, such as "no priority instance"
    :param offered_if_excluded: the same if the aggregate excludes ordinary
        instances, such as "new ordinary instances"
    """
    effects = []
    if aggregate_metadata.allows_priority(aggregate):
        effects.append('offers it to ' + offered_if_allowed)
    if aggregate_metadata.excludes_ordinary(aggregate):
        effects.append('offers it to ' + offered_if_excluded)
    return ' and '.join(effects)


def _find_weigher_warnings(
        conf: cfg.ConfigOpts, aggregates: abc.Collection[objects.Aggregate],
) -> abc.Iterator[str]:
    """Yield the metadata that would mislead the weighers.

    Metadata of an aggregate with the name of a multiplier replace the option.
    Two weighers, Nova's and that of this package, may weigh the same property
    of a host. The operator has then set the option of Nova's weigher to 0.
    """
    # Key, such as "cpu_weight_multiplier" -> clause that says what would count
    # twice, such as "server groups count".
    doubled = scheduler_checks.find_doubled_multipliers(conf)
    for key, effect in doubled.items():
        for aggregate in aggregates:
            multiplier = _parse_number(aggregate.metadata.get(key, 0))
            # With 0, or a text that is no number, Nova's weigher stays off.
            if multiplier is not None and multiplier != 0:
                yield ("Host aggregate '%s' has the metadata %s=%s, so that "
                       '%s twice; remove the key.'
                       % (aggregate.name, key, aggregate.metadata[key],
                          effect))
    # The names of the multipliers of this package's weighers.
    for key in aggregate_metadata.MULTIPLIER_KEYS:
        for aggregate in aggregates:
            multiplier = _parse_number(aggregate.metadata.get(key, 0))
            if multiplier is None:
                yield ("Host aggregate '%s' has the metadata %s=%s, which is "
                       'no number, so that [nova_prio] %s is used; set it to '
                       'a number.' % (aggregate.name, key,
                                      aggregate.metadata[key], key))
    # Each domain, such as "rack", is a key of aggregate metadata, except for
    # the last one, which is the host itself.
    domains = conf.nova_prio.affinity_domains
    for key in domains[:-1]:
        if not any(key in aggregate.metadata and aggregate.hosts
                   for aggregate in aggregates):
            yield ("[nova_prio] affinity_domains is %s, but no host is in an "
                   "aggregate with the metadata '%s', so that each host is a "
                   'domain of its own; set the metadata, or remove the key '
                   'from the option.' % (domains, key))


def _parse_number(value: str | float) -> float | None:
    """Return a value of metadata as a float, or None if it is no number."""
    try:
        return float(value)
    except ValueError:
        return None


def _format_names(hosts: abc.Collection[str]) -> str:
    """Return the names of hosts for the start of a sentence."""
    names = ', '.join(sorted(hosts)[:_MAX_NAMES])
    if len(hosts) == 1:
        return 'Host ' + names
    if len(hosts) > _MAX_NAMES:
        names += ' and %d more' % (len(hosts) - _MAX_NAMES)
    return 'Each of the hosts ' + names
