# SPDX-License-Identifier: Apache-2.0

import pytest

from nova_prio.compat import hooks
from nova_prio.scheduler import scheduler_checks

GOOD = {
    ('filter_scheduler', 'enabled_filters'): ['PriorityFilter'],
    ('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers',
        'nova_prio.scheduler.weights.all_weighers'],
    ('filter_scheduler', 'cpu_weight_multiplier'): 0.0,
    ('workarounds', 'disable_fallback_pcpu_query'): True,
    ('nova_prio', 'affinity_domains'): ['host'],
}


def found_by(check, options):
    """Return the sentences that a check returns with these options."""
    conf = hooks.register_options()
    try:
        for (group, name), value in options.items():
            conf.set_override(name, value, group=group)
        return check(conf)
    finally:
        for group, name in options:
            conf.clear_override(name, group=group)


@pytest.mark.parametrize('option, value, words', [
    (None, None, None),
    (('filter_scheduler', 'enabled_filters'), ['ComputeFilter'],
     ['enabled_filters', "'PriorityFilter'"]),
    (('filter_scheduler', 'enabled_filters'),
     ['PriorityFilter', 'NUMATopologyFilter'],
     ['enabled_filters', "remove 'NUMATopologyFilter'"]),
    (('filter_scheduler', 'weight_classes'),
     ['nova_prio.scheduler.weights.all_weighers'],
     ['weight_classes', "add 'nova.scheduler.weights.all_weighers'"]),
    (('filter_scheduler', 'weight_classes'), ['my.weighers.all'], None),
    (('filter_scheduler', 'cpu_weight_multiplier'), 1.0,
     ['cpu_weight_multiplier is 1.0', 'set it to 0.0']),
    *((('nova_prio', 'affinity_domains'), domains,
       ['affinity_domains is %s' % domains, "'host' as the last one"])
      for domains in ([], ['rack'], ['host', 'rack'], ['host', 'host'],
                      ['rack', 'rack', 'host'], ['', 'host'])),
    (('nova_prio', 'affinity_domains'), ['zone', 'rack', 'host'], None),
    (('workarounds', 'disable_fallback_pcpu_query'), False,
     ['disable_fallback_pcpu_query', 'set it to true']),
])
def test_find_problems(option, value, words):
    found = found_by(
        scheduler_checks.find_problems,
        GOOD if option is None else {**GOOD, option: value})
    if words is None:
        assert [] == found
    else:
        problem, = found
        assert all(word in problem for word in words)


def test_release_without_the_fallback_option_is_no_problem(monkeypatch):
    conf = hooks.register_options()
    monkeypatch.delitem(conf._groups['workarounds']._opts,
                        'disable_fallback_pcpu_query')
    options = {option: value for option, value in GOOD.items()
               if 'workarounds' not in option}
    assert [] == found_by(scheduler_checks.find_problems, options)


def multipliers(stock, ours):
    return {(group, '%s_weight_multiplier' % policy): value
            for group, value in (('filter_scheduler', stock),
                                 ('nova_prio', ours))
            for policy in ('soft_affinity', 'soft_anti_affinity')}


@pytest.mark.parametrize('options, words', [
    (multipliers(0.0, 10.0), None),
    (multipliers(1.0, 0.0), None),
    # The defaults of Nova and of this package.
    ({}, ['is 1.0 beside', 'count twice', 'set it to 0.0']),
    (multipliers(0.0, 0.0), ['both 0.0', 'do not count']),
    ({('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.ram.RAMWeigher',
        'nova_prio.scheduler.weights.all_weighers'],
      **multipliers(0.0, 10.0)},
     ['weight_classes', 'ServerGroupSoft', 'refuses server groups']),
    ({('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers'], **multipliers(0.0, 10.0)},
     ['weight_classes', 'group_weighers.Soft', 'count; add the weigher']),
    ({('nova_prio', 'affinity_domains'): ['rack', 'host'],
      **multipliers(1.0, 0.0)},
     ["affinity_domains is ['rack', 'host']", 'does not read', 'to 10.0']),
    ({('nova_prio', 'affinity_domains'): ['rack', 'host'],
      **multipliers(0.0, 10.0)}, None),
    ({('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers'], **multipliers(1.0, 10.0)},
     None),
    ({('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers',
        'nova_prio.scheduler.weights.group_weighers.SoftAffinityWeigher',
        'nova_prio.scheduler.weights.group_weighers.SoftAntiAffinityWeigher'],
      **multipliers(0.0, 10.0)}, None),
])
def test_find_warnings(options, words):
    found = found_by(scheduler_checks.find_warnings, {**GOOD, **options})
    assert (0 if words is None else 2) == len(found)
    for warning in found:
        assert all(word in warning for word in words)
