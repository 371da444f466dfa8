# SPDX-License-Identifier: Apache-2.0

"""Faults of host aggregates are found."""

import pytest

from nova import objects
from nova_prio.admin import aggregate_checks
from nova_prio.admin import host_inventory
from nova_prio.compat import hooks
from nova_prio.compat import interfaces
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report
from nova_prio.virt import driver_alias
from tests.unit import nova_objects

MIX = {'priority_mix': 'true'}
SCHEDULER = {
    ('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers',
        'nova_prio.scheduler.weights.all_weighers'],
    ('filter_scheduler', 'cpu_weight_multiplier'): 0.0,
}


def host(name, cpus=nova_objects.CPUS, stats=None, free_ram_mb=0):
    """Return a host with our driver, or with another one if cpus is None."""
    if cpus:
        stats = {host_report.STATS_KEY: host_report.HostReport.to_stats(
            capacity_report.CapacityReport.from_usage(
                cpus, cpu_capacity.Rows(0, 0, 0), 0, {}))}
    return host_inventory.HostRecord(
        node=objects.ComputeNode(
            host=name, stats=stats, free_ram_mb=free_ram_mb),
        cell='', service=None, aggregates=[])


OURS, OTHER = host('ours'), host('other', None)


@pytest.fixture
def found():
    """Return a function: aggregates and hosts -> warnings."""
    conf = hooks.register_options()

    def found(aggregates, hosts=(OURS, OTHER), options=None, known=True):
        merged = {**SCHEDULER, **(options or {})}
        try:
            for (group, name), value in merged.items():
                conf.set_override(name, value, group=group)
            return list(aggregate_checks.find_warnings(
                conf, [] if options is None else [interfaces.SCHEDULER],
                [objects.Aggregate(name=name, hosts=list(members),
                                   metadata=metadata)
                 for name, members, metadata in aggregates], hosts, known))
        finally:
            for group, name in merged:
                conf.clear_override(name, group=group)

    return found


@pytest.mark.parametrize('aggregates', [
    [('a', ['ours'], MIX)],
    [('a', ['ours'], {'priority': ' True '})],
    [('a', ['ours'], {**MIX, 'priority': 'FALSE',
                      'priority_ordinary': 'True', 'other': 'yes'})],
    # Hosts with another driver may be in any other aggregate, which may use
    # the key for another purpose.
    [('a', ['ours'], MIX), ('b', ['other'], {'priority_mix': 'false'}),
     ('c', ['other', 'ours'], {}), ('d', ['other'], {'priority': '7'})],
    [('a', ['ours'], MIX), ('b', [], MIX)],
])
def test_right_aggregates_give_no_warning(found, aggregates):
    assert [] == found(aggregates)
    assert [] == found(aggregates, options={})


@pytest.mark.parametrize('aggregates, words', [
    ([], ['Host ours runs prio.PriorityLibvirtDriver, but', '=true; add it']),
    ([('a', ['other'], {})], ['Host ours runs']),
    ([('a', ['ours', 'other'], MIX)],
     ["Host other of the host aggregate 'a'", 'set [DEFAULT] compute_driver']),
    ([('a', ['ours', 'new'], MIX)], ["Host new of the host aggregate 'a'"]),
    ([('a', ['ours', *'bcdefghijklm'], MIX)],
     ['Each of the hosts b, c, d, e, f, g, h, i, j, k and 2 more of the']),
    ([('a', ['ours'], MIX), ('b', [], {'priority_mix': 'yes'})],
     ["Host aggregate 'b' has the metadata priority_mix=yes,", 'set it to']),
    ([('a', ['ours'], MIX), ('b', ['other'], {'priority_ordinary': '0'})],
     ["'b' has the metadata priority_ordinary=0, which is neither true"]),
    ([('a', ['ours'], {**MIX, 'priority': '7'})],
     ["'a' has the metadata priority=7,"]),
])
def test_wrong_aggregates_give_a_warning(found, aggregates, words):
    sentence, = found(aggregates)
    assert all(word in sentence for word in words), sentence


def test_hosts_without_report_or_capacity_give_a_warning(found):
    broken = host('broken', None, {host_report.STATS_KEY: 'x'})
    sentence, = found([('a', ['ours', 'broken'], MIX)], [OURS, broken])
    assert sentence.startswith(
        'Host broken gets no priority instance, for the report of the host')
    unsold = host('low', cpu_capacity.HostCPUs(
        frozenset({0, 1}), frozenset({2}), cpu_capacity.parse_ratio('0.5'),
        True))
    sentence, = found([('a', ['ours', 'low'], MIX)], [OURS, unsold])
    assert 'Host low may sell no low-priority vCPU' in sentence
    new = host('new', None, free_ram_mb=None)
    sentence, = found([('a', ['ours', 'new'], MIX)], [OURS, new])
    assert ('Host new gets no instance, for nova-compute has not written the '
            'resources of the host yet; see the log') in sentence
    # The host may be in a cell that does not answer.
    assert [] == found([('a', ['ours', 'new'], MIX)], known=False)
    sentence, = found([('a', ['other'], {})], [OTHER])
    assert 'No host aggregate has the metadata priority_mix=true' in sentence
    assert driver_alias.DRIVER in sentence


DOMAINS = {('nova_prio', 'affinity_domains'): ['rack', 'host']}
SOFT = 'soft_affinity_weight_multiplier'
ONLY_OF_NOVA = {('filter_scheduler', 'weight_classes'): [
    'nova.scheduler.weights.all_weighers',
    'nova_prio.scheduler.weights.priority_weighter.PriorityWeighter']}


@pytest.mark.parametrize('metadata, options, words', [
    ({'cpu_weight_multiplier': '2.0'}, {},
     'cpu_weight_multiplier=2.0, so that ordinary instances are weighed by C'),
    ({'cpu_weight_multiplier': '0.0'}, {}, None),
    # Nova takes the option.
    ({'cpu_weight_multiplier': 'two'}, {}, None),
    ({'cpu_weight_multiplier': '2.0'}, {
        ('filter_scheduler', 'weight_classes'): [
            'nova.scheduler.weights.all_weighers']}, None),
    ({SOFT: '1'}, {}, SOFT + '=1, so that server groups count twice; remove'),
    ({SOFT: '1'}, {('nova_prio', SOFT): 0.0}, None),
    ({SOFT: '1'}, ONLY_OF_NOVA, None),
    ({'soft_anti_affinity_weight_multiplier': '-1'}, {}, 'groups count twice'),
    ({'priority_weight_multiplier': '-5'}, {}, None),
    ({'priority_weight_multiplier': 'five'}, {},
     'priority_weight_multiplier=five, which is no number, so that [nova'),
    ({}, DOMAINS, "but no host is in an aggregate with the metadata 'rack'"),
    ({'rack': '1'}, DOMAINS, None),
])
def test_misleading_metadata_gives_a_warning(found, metadata, options, words):
    aggregates = [('a', ['ours'], {**MIX, **metadata})]
    sentences = found(aggregates, options=options)
    assert (words is not None) == bool(sentences)
    assert all(words in sentence for sentence in sentences), sentences
    # Other services do not use the weighers.
    assert [] == found(aggregates)


def test_domain_of_an_empty_aggregate_gives_a_warning(found):
    assert found([('a', ['ours'], MIX), ('b', [], {'rack': '1'})],
                 options=DOMAINS)
