# SPDX-License-Identifier: Apache-2.0

"""Configuration of nova-scheduler that priority instances depend on.

Each function takes Nova's ``oslo_config.cfg.ConfigOpts``. A sentence names an
option, its value and the remedy. An ordinary instance has no priority.
"""

from nova_prio import conf as prio_conf

#: Functions that stand for all weighers of Nova, and of this package.
_NOVA_WEIGHERS = 'nova.scheduler.weights.all_weighers'
_PRIO_WEIGHERS = 'nova_prio.scheduler.weights.all_weighers'
_NOVA_CPU_WEIGHER = 'nova.scheduler.weights.cpu.CPUWeigher'
#: Policy of server groups -> Nova's weigher, which Nova requires to be
#: configured, and the weigher of this package.
_SOFT_WEIGHERS = {
    'soft_affinity': (
        'nova.scheduler.weights.affinity.ServerGroupSoftAffinityWeigher',
        'nova_prio.scheduler.weights.group_weighers.SoftAffinityWeigher'),
    'soft_anti_affinity': (
        'nova.scheduler.weights.affinity.ServerGroupSoftAntiAffinityWeigher',
        'nova_prio.scheduler.weights.group_weighers.SoftAntiAffinityWeigher'),
}


def find_problems(conf):
    """Return the faults that stop nova-scheduler, a list of sentences."""
    problems = _find_invalid(conf)
    if problems:
        # The other checks read these options.
        return problems
    options = conf.filter_scheduler
    filters, weighers = options.enabled_filters, options.weight_classes
    domains = conf.nova_prio.affinity_domains
    if 'PriorityFilter' not in filters:
        problems.append(
            "[filter_scheduler] enabled_filters lacks 'PriorityFilter'; add "
            "it in place of 'NUMATopologyFilter'.")
    elif 'NUMATopologyFilter' in filters:
        problems.append(
            "[filter_scheduler] enabled_filters has both 'PriorityFilter' and "
            "'NUMATopologyFilter', which PriorityFilter replaces; remove "
            "'NUMATopologyFilter'.")
    if all(_is_of_this_package(weigher) for weigher in weighers):
        problems.append(
            "[filter_scheduler] weight_classes is %s, which switches off "
            "Nova's weighers; add '%s'." % (weighers, _NOVA_WEIGHERS))
    if options.cpu_weight_multiplier and _weighs_cpus_twice(weighers):
        problems.append(
            "[filter_scheduler] cpu_weight_multiplier is %s, but the "
            "PriorityWeighter already weighs ordinary instances as the CPU "
            "weigher does; set it to 0.0." % options.cpu_weight_multiplier)
    has_duplicates = len(set(domains)) < len(domains)
    if domains[-1:] != ['host'] or '' in domains or has_duplicates:
        problems.append(
            "[nova_prio] affinity_domains is %s; it must list different keys "
            "of aggregate metadata and 'host' as the last one, such as "
            "zone,rack,host, or host alone." % domains)
    # The fallback asks Placement for VCPU if no host has enough PCPU. A
    # release of Nova without this deprecated option has no fallback.
    group, name = 'workarounds', 'disable_fallback_pcpu_query'
    if prio_conf.is_registered(conf, group, name) and not conf[group][name]:
        problems.append(
            "[workarounds] disable_fallback_pcpu_query is false, so that a "
            "pinned instance may get VCPU instead of PCPU; set it to true.")
    return problems


def find_warnings(conf):
    """Return the faults of weighers for server groups, a list of sentences.

    For each policy, exactly one weigher must count the members of a server
    group: that of Nova, or that of this package.

    The list is empty if an option is invalid: :func:`find_problems` reports
    the option.
    """
    if _find_invalid(conf):
        return []
    weighers = conf.filter_scheduler.weight_classes
    domains = conf.nova_prio.affinity_domains
    warnings = []
    # A weigher is the full name of its class. The option may also name the
    # function that stands for all weighers of a package.
    for policy, (nova_weigher, prio_weigher) in _SOFT_WEIGHERS.items():
        name = '%s_weight_multiplier' % policy
        nova_value = conf.filter_scheduler[name]
        prio_value = conf.nova_prio[name]
        has_nova = _is_enabled(nova_weigher, _NOVA_WEIGHERS, weighers)
        has_prio = _is_enabled(prio_weigher, _PRIO_WEIGHERS, weighers)
        # Multiplier 0 switches a weigher off. The first case below is that
        # Nova's weigher is not enabled.
        nova_counts = bool(nova_value)
        prio_counts = has_prio and bool(prio_value)
        if not has_nova:
            text = ("[filter_scheduler] weight_classes is {weighers}, without "
                    "'{nova_weigher}', so that Nova refuses server groups "
                    "with the policy {policy}; add it.")
        elif nova_counts and prio_counts:
            text = ("[filter_scheduler] {name} is {nova_value} beside "
                    "[nova_prio] {name} = {prio_value}, so that server groups "
                    "count twice; set it to 0.0.")
        elif nova_counts and len(domains) > 1:
            text = ("[nova_prio] affinity_domains is {domains}, which Nova's "
                    "'{nova_weigher}' does not read; set [filter_scheduler] "
                    "{name} to 0.0 and [nova_prio] {name} to 10.0, and add "
                    "'{prio_weigher}' to [filter_scheduler] weight_classes.")
        elif nova_counts or prio_counts:
            # One weigher counts, and it reads all domains.
            continue
        elif not has_prio:
            text = ("[filter_scheduler] weight_classes is {weighers}, without "
                    "'{prio_weigher}', and {name} is 0.0, so that server "
                    "groups do not count; add the weigher.")
        else:
            text = ("[filter_scheduler] and [nova_prio] {name} are both 0.0, "
                    "so that server groups do not count; set the latter to "
                    "10.0.")
        warnings.append(text.format(
            name=name, policy=policy.replace('_', '-'),
            nova_value=nova_value, prio_value=prio_value, weighers=weighers,
            domains=domains, nova_weigher=nova_weigher,
            prio_weigher=prio_weigher))
    return warnings


def find_doubled_multipliers(conf):
    """Return the multipliers that aggregate metadata must not have.

    Nova's weighers prefer such metadata to their option. Thus, with such
    metadata, a weigher of Nova that the option switches off would count beside
    that of this package.

    :returns: dict, key of aggregate metadata -> clause that says what would
        happen twice, such as "server groups count"; empty if an option is
        invalid
    """
    if _find_invalid(conf):
        return {}
    weighers = conf.filter_scheduler.weight_classes
    multipliers = {}
    # A weigher is the full name of its class. The option may also name the
    # function that stands for all weighers of a package.
    for policy, (nova_weigher, prio_weigher) in _SOFT_WEIGHERS.items():
        name = '%s_weight_multiplier' % policy
        if (_is_enabled(nova_weigher, _NOVA_WEIGHERS, weighers) and
                _is_enabled(prio_weigher, _PRIO_WEIGHERS, weighers) and
                conf.nova_prio[name]):
            multipliers[name] = 'server groups count'
    # PriorityWeighter weighs ordinary instances as Nova's CPU weigher does.
    if _weighs_cpus_twice(weighers):
        multipliers['cpu_weight_multiplier'] = (
            'ordinary instances are weighed by CPU')
    return multipliers


def _find_invalid(conf):
    """Return a sentence for each option of this package that is invalid."""
    return prio_conf.find_invalid(
        conf, [option.name for option in prio_conf.PRIORITY_OPTS])


def _is_of_this_package(weigher):
    """Return whether a class, given by its full name, is of this package."""
    return weigher.startswith('nova_prio.')


def _is_enabled(weigher, all_weighers, weight_classes):
    """Return whether an option enables a weigher, by its name or with all.

    :param weigher: full name of the class
    :param all_weighers: name of the function that stands for all weighers of
        the same package
    :param weight_classes: value of [filter_scheduler] weight_classes
    """
    return weigher in weight_classes or all_weighers in weight_classes


def _weighs_cpus_twice(weighers):
    """Return whether our weighers and the CPU weigher of Nova are enabled.

    :param weighers: list, value of [filter_scheduler] weight_classes
    """
    has_ours = any(_is_of_this_package(weigher) for weigher in weighers)
    has_novas = _is_enabled(_NOVA_CPU_WEIGHER, _NOVA_WEIGHERS, weighers)
    return has_ours and has_novas
