# SPDX-License-Identifier: Apache-2.0

"""Host aggregates that priority instances depend on.

What is found can change at run time, and stops no service.
"""

from nova_prio.compat import contract
from nova_prio.model import aggregate_metadata
from nova_prio.scheduler import config_checks
from nova_prio.virt import driver_alias

_KEY = aggregate_metadata.AGGREGATE_KEYS[0]
#: No sentence names more.
_MOST_NAMES = 10


def find_warnings(conf, services, aggregates, hosts, all_hosts_known):
    """Yield what is wrong with the host aggregates, one sentence each.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param services: names of the services whose configuration that is
    :param aggregates: list of nova.objects.Aggregate: all there are
    :param hosts: list of nova_prio.admin.host_inventory.HostCapacity
    :param all_hosts_known: whether these are the hosts of all cells
    """
    ours = {host.name for host in hosts if host.report}
    for host in hosts:
        if host.problem:
            yield ('Host %s gets no priority instance, for %s; install the '
                   'release of nova-prio there that nova-scheduler has.'
                   % (host.name, host.problem))
    unsold = [host.name for host in hosts if host.report and host.report.mix
              and not host.report.sellable.low]
    if unsold:
        yield ('%s may sell no low-priority vCPU with the CPU allocation '
               'ratio in force; set a larger [DEFAULT] cpu_allocation_ratio '
               'there.' % _named(unsold))
    other = {host.name for host in hosts if not (host.report or host.problem)}
    known = {host.name for host in hosts}
    for aggregate in aggregates:
        there = set(aggregate.hosts)
        yield from _misread(aggregate, bool(there & ours))
        silent = there & other | (there - known if all_hosts_known else set())
        if silent and aggregate_metadata.is_marked(aggregate):
            yield ("%s of the host aggregate '%s' for priority instances "
                   "reports nothing of '%s' and gets none of them; set "
                   '[DEFAULT] compute_driver to it there, with nova-prio '
                   'installed, or take the host out of the aggregate.'
                   % (_named(silent), aggregate.name,
                      driver_alias.DRIVER))
    yield from _unmarked(aggregates, ours)
    if contract.SCHEDULER in services:
        yield from _for_weighers(conf, aggregates)


def find_mirror_warnings(aggregates, hosts):
    """Yield the differences between the aggregates of Nova and of Placement.

    Ask Placement once for each aggregate that restricts requests, not for each
    host.

    :param aggregates: list of nova.objects.Aggregate: all there are
    :param hosts: list of nova_prio.admin.host_inventory.HostCapacity
    """
    # Take a second to import.
    from nova.scheduler.client import report

    from nova_prio.placement import allocations
    asked_for = list(filter(aggregate_metadata.restricts_requests, aggregates))
    try:
        # Some releases ask Placement at once.
        client = report.SchedulerReportClient() if asked_for else None
        for aggregate in asked_for:
            there = {provider['uuid'] for provider in allocations.get_json(
                client, '/resource_providers?member_of=' + aggregate.uuid
                )['resource_providers']}
            yield from _unlike_mirror(aggregate, hosts, there)
    except (allocations.PlacementRefused, *allocations.CLIENT_ERRORS) as error:
        yield ('The aggregates of Placement cannot be compared with the host '
               'aggregates: %s; see [placement] in nova.conf, and run this '
               'again.' % ' '.join(str(error).split()).rstrip('.'))


def _unlike_mirror(aggregate, hosts, there):
    """Yield sentences on hosts that Nova or Placement alone has in it.

    :param there: UUIDs of the providers that Placement has in the aggregate
    """
    # A host may have several compute nodes.
    in_nova = {(host.uuid, host.name) for host in hosts
               if host.name in aggregate.hosts}
    in_placement = {(host.uuid, host.name) for host in hosts
                    if host.uuid in there}
    for nodes, to_priority, to_ordinary, sentence in (
            (in_nova - in_placement, 'no priority instance',
             'new ordinary instances',
             "%s of the host aggregate '%s' is not in that aggregate in "
             'Placement, which %s; run "nova-manage placement '
             'sync_aggregates".'),
            (in_placement - in_nova, 'priority instances',
             'no new ordinary instance',
             "%s is not in the host aggregate '%s', but in that aggregate in "
             'Placement, which %s; run "nova-prio audit --fix", or take it '
             'out with "openstack resource provider aggregate set".')):
        if nodes:
            offers = [
                'offers it to ' + text for text, applies in (
                    (to_priority, aggregate_metadata.is_marked(aggregate)),
                    (to_ordinary,
                     aggregate_metadata.excludes_ordinary(aggregate)))
                if applies]
            names = {name for _, name in nodes}
            yield sentence % (_named(names), aggregate.name,
                              ' and '.join(offers))


def _misread(aggregate, has_ours):
    for key, value in aggregate_metadata.find_misread_metadata(
            aggregate).items():
        # Clouds use the other key for other things too.
        if has_ours or key != aggregate_metadata.AGGREGATE_KEYS[1]:
            yield ("Host aggregate '%s' has the metadata %s=%s, which counts "
                   'as neither true nor false; set it to one of them.'
                   % (aggregate.name, key, value))


def _unmarked(aggregates, ours):
    marked = list(filter(aggregate_metadata.is_marked, aggregates))
    outside = ours.difference(*(aggregate.hosts for aggregate in marked))
    if outside:
        yield ('%s runs %s, but gets no priority instance, being in no host '
               'aggregate with the metadata %s=true; add it to one.'
               % (_named(outside), driver_alias.DRIVER, _KEY))
    elif not marked:
        yield ('No host aggregate has the metadata %s=true, which priority '
               'instances need; set it on one with hosts that run %s.'
               % (_KEY, driver_alias.DRIVER))


def _for_weighers(conf, aggregates):
    """Yield the metadata that Nova's weighers and ours would misuse."""
    for key, double in config_checks.find_doubled_multipliers(conf).items():
        for aggregate in aggregates:
            if _number(aggregate.metadata.get(key, 0)):
                yield ("Host aggregate '%s' has the metadata %s=%s, so that "
                       '%s twice; remove the key.'
                       % (aggregate.name, key, aggregate.metadata[key],
                          double))
    key = 'priority_weight_multiplier'
    for aggregate in aggregates:
        if _number(aggregate.metadata.get(key, 0)) is None:
            yield ("Host aggregate '%s' has the metadata %s=%s, of which "
                   '[nova_prio] %s takes the place; set it to a number.'
                   % (aggregate.name, key, aggregate.metadata[key], key))
    for key in conf.nova_prio.affinity_domains[:-1]:
        if not any(key in aggregate.metadata and aggregate.hosts
                   for aggregate in aggregates):
            yield ("[nova_prio] affinity_domains is %s, but no host is in an "
                   "aggregate with the metadata '%s', so that each is a "
                   'domain of its own; set it, or take the key out.'
                   % (conf.nova_prio.affinity_domains, key))


def _number(value):
    """Return the number that a value is, or None."""
    try:
        return float(value)
    except ValueError:
        return None


def _named(hosts):
    """Return the names of hosts for the start of a sentence."""
    names = ', '.join(sorted(hosts)[:_MOST_NAMES])
    more = len(hosts) - _MOST_NAMES
    return 'Each of the hosts %s%s' % (
        names, ' and %d more' % more if more > 0 else '') if len(
            hosts) > 1 else 'Host ' + names
