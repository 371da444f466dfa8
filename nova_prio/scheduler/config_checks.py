# SPDX-License-Identifier: Apache-2.0

"""Configuration of nova-scheduler that priority instances depend on."""

from nova_prio.compat import contract
from nova_prio import conf as our_conf

_ALL_OF_NOVA = 'nova.scheduler.weights.all_weighers'
_ALL_OF_OURS = 'nova_prio.scheduler.weights.all_weighers'
#: Policy of server groups -> Nova's weigher, which Nova wants configured, and
#: ours.
_SOFT_WEIGHERS = {
    'soft_affinity': (
        'nova.scheduler.weights.affinity.ServerGroupSoftAffinityWeigher',
        'nova_prio.scheduler.weights.group_weighers.SoftAffinityWeigher'),
    'soft_anti_affinity': (
        'nova.scheduler.weights.affinity.ServerGroupSoftAntiAffinityWeigher',
        'nova_prio.scheduler.weights.group_weighers.SoftAntiAffinityWeigher'),
}
_WITH_CPU_WEIGHER = {_ALL_OF_NOVA, 'nova.scheduler.weights.cpu.CPUWeigher'}


def find_problems(conf):
    """Return the faults that stop nova-scheduler.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: list of str, one sentence each: option, value and remedy
    """
    found = _invalid(conf)
    if found:
        # The other checks read these options.
        return found
    options = conf.filter_scheduler
    if 'PriorityFilter' not in options.enabled_filters:
        found.append(
            "[filter_scheduler] enabled_filters does not hold "
            "'PriorityFilter'; add it in the place of 'NUMATopologyFilter'.")
    elif 'NUMATopologyFilter' in options.enabled_filters:
        found.append(
            "[filter_scheduler] enabled_filters holds 'NUMATopologyFilter' "
            "beside 'PriorityFilter', which takes its place; remove "
            "'NUMATopologyFilter'.")
    weighers = options.weight_classes
    if all(map(_is_ours, weighers)):
        found.append(
            "[filter_scheduler] weight_classes is %s, which switches off "
            "Nova's weighers; add 'nova.scheduler.weights.all_weighers'."
            % weighers)
    if options.cpu_weight_multiplier and _weighs_cpus_twice(weighers):
        found.append(
            "[filter_scheduler] cpu_weight_multiplier is %s beside the "
            "PriorityWeighter, which weighs ordinary instances as the CPU "
            "weigher does; set it to 0.0."
            % options.cpu_weight_multiplier)
    domains = conf.nova_prio.affinity_domains
    if (domains[-1:] != ['host'] or '' in domains or
            len(set(domains)) < len(domains)):
        found.append(
            "[nova_prio] affinity_domains is %s; allowed are different keys "
            "of aggregate metadata and 'host' as the last one, such as "
            "zone,rack,host, or host alone." % domains)
    # A release of Nova without this deprecated option has no fallback.
    group, name = 'workarounds', 'disable_fallback_pcpu_query'
    if contract.is_registered(conf, group, name) and not conf[group][name]:
        found.append(
            "[workarounds] disable_fallback_pcpu_query is false, which lets a "
            "pinned instance be given VCPU instead of PCPU; set it to true.")
    return found


def _invalid(conf):
    return our_conf.find_invalid(
        conf, [option.name for option in our_conf.PRIORITY_OPTS])


def _is_ours(weigher):
    return weigher.startswith('nova_prio.')


def _weighs_cpus_twice(weighers):
    return (any(map(_is_ours, weighers)) and
            not _WITH_CPU_WEIGHER.isdisjoint(weighers))


def find_warnings(conf):
    """Return the faults that affect the soft policies of server groups.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: list of str, one sentence each: option, value and remedy; empty
        if an option is invalid, which is a problem
    """
    found = []
    if _invalid(conf):
        return found
    weighers = conf.filter_scheduler.weight_classes
    for policy, (of_nova, of_ours) in _SOFT_WEIGHERS.items():
        name = '%s_weight_multiplier' % policy
        stock, ours = conf.filter_scheduler[name], conf.nova_prio[name]
        has_ours = not {of_ours, _ALL_OF_OURS}.isdisjoint(weighers)
        if {of_nova, _ALL_OF_NOVA}.isdisjoint(weighers):
            found.append(
                "[filter_scheduler] weight_classes is %s, without '%s', so "
                "that Nova refuses server groups with the policy %s; add it."
                % (weighers, of_nova, policy.replace('_', '-')))
        elif stock and ours and has_ours:
            found.append(
                "[filter_scheduler] %s is %s beside [nova_prio] %s = %s, so "
                "that server groups count twice; set it to 0.0."
                % (name, stock, name, ours))
        elif not stock and not has_ours:
            found.append(
                "[filter_scheduler] weight_classes is %s, without '%s', and "
                "%s is 0.0, so that server groups do not count; add it."
                % (weighers, of_ours, name))
        elif not stock and not ours:
            found.append(
                "[filter_scheduler] and [nova_prio] %s are both 0.0, so that "
                "server groups do not count; set the latter to 10.0." % name)
        elif stock and len(conf.nova_prio.affinity_domains) > 1:
            found.append(
                "[nova_prio] affinity_domains is %s, which Nova's '%s' does "
                "not read; set [filter_scheduler] %s to 0.0, that of "
                "[nova_prio] to 10.0, and have '%s' in [filter_scheduler] "
                "weight_classes." % (conf.nova_prio.affinity_domains, of_nova,
                                     name, of_ours))
    return found


def find_doubled_multipliers(conf):
    """Return the multipliers that no aggregate may have in its metadata.

    Nova's weighers prefer such metadata to their option, which is zero beside
    weighers of ours that do the same.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: dict, key of aggregate metadata -> what happens twice; empty if
        an option is invalid
    """
    found = {}
    if _invalid(conf):
        return found
    weighers = conf.filter_scheduler.weight_classes
    if _weighs_cpus_twice(weighers):
        found['cpu_weight_multiplier'] = (
            'ordinary instances are weighed by CPU')
    for policy, (of_nova, of_ours) in _SOFT_WEIGHERS.items():
        name = '%s_weight_multiplier' % policy
        if (conf.nova_prio[name] and
                not {of_nova, _ALL_OF_NOVA}.isdisjoint(weighers) and
                not {of_ours, _ALL_OF_OURS}.isdisjoint(weighers)):
            found[name] = 'server groups count'
    return found
