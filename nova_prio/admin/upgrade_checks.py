# SPDX-License-Identifier: Apache-2.0

"""Checks of the configuration of a service, for ``upgrade check``.

A failure stops a service or places instances wrongly. Nothing is changed. Each
check yields (Code, sentence) for each finding. All checks have the parameter:

:param conf: Nova's configuration
"""

from __future__ import annotations

from collections import abc
import functools
import typing

from oslo_upgradecheck import upgradecheck
from stevedore import extension

from nova_prio.admin import aggregate_checks
from nova_prio.admin import config_files
from nova_prio.api import api_checks
from nova_prio.compat import contract
from nova_prio.compat import interfaces
from nova_prio.scheduler import scheduler_checks
from nova_prio.virt import driver_alias
from nova_prio_host import command as host_command

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from oslo_config import cfg

    _Findings = abc.Iterator[tuple[upgradecheck.Code, str]]
    _Check = abc.Callable[[cfg.ConfigOpts], _Findings]
    #: A check that also takes a context of an administrator.
    _FindInDatabases = abc.Callable[
        [cfg.ConfigOpts, nova_context.RequestContext], _Findings]

SUCCESS, WARNING, FAILURE = upgradecheck.Code

_DRIVER = driver_alias.DRIVER
_FILTER_PREFIX = 'nova_prio.scheduler.filters.'
_WEIGHER_PREFIX = 'nova_prio.scheduler.weights.'
#: Kind of finding of the audit -> the state of the guests, in the order in
#: which an operator should act. A guest with a CPU of another guest may stay
#: off after a reboot, which is the remedy of the later kinds.
_OLD_GUESTS = {
    'same_cpu': 'Guests of this host are pinned to the same CPU',
    'cpu_outside': 'Guests of this host are pinned to CPUs outside [compute] '
                   'cpu_dedicated_set',
    'old_cpuset': 'When nova-compute runs with this configuration, guests of '
                  'this host are on stale CPU sets',
}
#: With so many hosts, fewer candidates save much time of each request.
_MANY_HOSTS = 300
#: With so many candidates in random order, a simulation refused no more
#: requests: doc/source/contributor/scale.rst.
_ENOUGH_CANDIDATES = 100
#: The name of the entry points of this package.
PLUGIN = 'nova_prio'


def list_services(conf: cfg.ConfigOpts) -> list[str]:
    """Return the names of the services that use priorities."""
    options = conf.filter_scheduler
    services = []
    if conf.nova_prio.enabled:
        services.append(interfaces.API)
    if 'PriorityFilter' in options.enabled_filters or any(
            name.startswith('nova_prio.') for name
            in options.available_filters + options.weight_classes):
        services.append(interfaces.SCHEDULER)
    if conf.compute_driver == _DRIVER:
        services.append(interfaces.COMPUTE)
    return services


def _list_all(code: upgradecheck.Code,
              sentences: abc.Iterable[str]) -> _Findings:
    """Yield the sentences as findings with the same code."""
    return ((code, sentence) for sentence in sentences)


def _find_missing_plugin(namespace: str, consequence: str) -> _Findings:
    """Yield a failure if an entry point of this package does not load.

    :param namespace: name of the group of entry points
    :param consequence: clause about the effect
    """
    # Without the callback, stevedore would log each plug-in of another package
    # that does not load. The services report those.
    names = extension.ExtensionManager(
        namespace, on_load_failure_callback=lambda *_: None).names()
    if PLUGIN not in names:
        yield FAILURE, (
            "The entry point '%s' of '%s' is missing, without which %s; "
            'install nova-prio again.' % (PLUGIN, namespace, consequence))


def _check_use(conf: cfg.ConfigOpts) -> _Findings:
    """Check the options that ask for priority instances; warn if none does."""
    for group, name in config_files.PLUGIN_OPTIONS:
        options = conf if group == 'DEFAULT' else conf[group]
        value = options[name]
        # oslo.config takes a comment after a value as part of the value.
        if '#' in str(value):
            yield FAILURE, (
                '[%s] %s is %s, comment included; put the comment on a line '
                'of its own.' % (group, name, value))
    services = list_services(conf)
    if not services:
        yield WARNING, (
            'Nothing in this configuration asks for priority instances: '
            'compute_driver is %s, [filter_scheduler] enabled_filters has no '
            "'PriorityFilter' and [nova_prio] enabled is false; with "
            '--config-file, give the file of a service that does.'
            % conf.compute_driver)
    elif conf.cpu_priority_mix_enable and interfaces.COMPUTE not in services:
        yield FAILURE, (
            '[DEFAULT] cpu_priority_mix_enable is true, but [DEFAULT] '
            "compute_driver is %s, which does not read it; set it to '%s'."
            % (conf.compute_driver, _DRIVER))


def _check_release(conf: cfg.ConfigOpts) -> _Findings:
    """Compare Nova with the interfaces that this package relies on.

    If no service uses priorities with ``conf``, as in a new image, check the
    interfaces of all services.
    """
    services = list_services(conf) or [
        interfaces.API, interfaces.SCHEDULER, interfaces.COMPUTE]
    for service in services + [interfaces.COMMANDS]:
        for mismatch in contract.find_mismatches(service):
            yield FAILURE, (
                'Nova does not match this package in %s: %s; install a '
                'release of nova-prio that supports this Nova.'
                % (service, mismatch))
    release = contract.get_nova_release()
    if not contract.is_tested(release):
        tested = ', '.join(str(each) for each in contract.TESTED_RELEASES)
        yield WARNING, (
            'nova-prio is not tested with Nova %s, only with %s; try it on '
            'one host first.' % (release, tested))


def _check_api(conf: cfg.ConfigOpts) -> _Findings:
    """Check the configuration of nova-api."""
    # To fold a priority is to write it into the copy of the flavor that a new
    # instance gets. nova-api loads the code that does so as this plug-in.
    yield from _find_missing_plugin('nova.api.extra_spec_validators',
                                    'nova-api folds no priority')
    yield from _list_all(WARNING, api_checks.find_warnings(conf))


def _check_scheduler(conf: cfg.ConfigOpts) -> _Findings:
    """Check the configuration of nova-scheduler."""
    options = conf.filter_scheduler
    if not any(name.startswith(_FILTER_PREFIX)
               for name in options.available_filters):
        yield FAILURE, (
            '[filter_scheduler] available_filters is %s, in which Nova does '
            "not find 'PriorityFilter'; add '%sall_filters'."
            % (options.available_filters, _FILTER_PREFIX))
    yield from _list_all(FAILURE, scheduler_checks.find_problems(conf))
    if not any(name.startswith(_WEIGHER_PREFIX)
               for name in options.weight_classes):
        yield WARNING, (
            '[filter_scheduler] weight_classes is %s, without '
            "'%sall_weighers', so hosts are not weighed by the remaining "
            'CPUs of a priority; add it.'
            % (options.weight_classes, _WEIGHER_PREFIX))
    yield from _list_all(WARNING, scheduler_checks.find_warnings(conf))


def _check_compute(conf: cfg.ConfigOpts) -> _Findings:
    """Check the configuration of nova-compute."""
    # This import takes a second.
    from nova_prio.virt.libvirt import compute_checks
    # Nova imports drivers only from nova.virt, after it has loaded the
    # plug-ins of os-vif: that of this package puts its driver there.
    yield from _find_missing_plugin(
        'os_vif', "nova-compute does not find '%s'" % _DRIVER)
    # The first function checks the options. The second compares the CPU sets
    # with the CPUs of this host, by rules of Nova's own driver. It needs CPU
    # sets that can be read, so run it only if the first one finds nothing.
    problems = (compute_checks.find_problems(conf) or
                compute_checks.find_problems_of_nova(conf))
    yield from _list_all(FAILURE, problems)
    name = 'ram_allocation_ratio'
    if conf[name] is None:
        name = 'initial_ram_allocation_ratio'
    if conf.cpu_priority_mix_enable and conf[name] > 1:
        yield WARNING, (
            '[DEFAULT] %s is %s, but a host with cpu_priority_mix_enable '
            'uses 1.0; set it to 1.0.' % (name, conf[name]))


def _check_cgroups(host_arguments: abc.Sequence[str],
                   conf: cfg.ConfigOpts) -> _Findings:
    """Check the cgroups of this host.

    :param host_arguments: arguments of nova-prio-host, which finds the
        problems
    :param conf: not used; each check has this parameter
    """
    problems = host_command.find_problems(host_arguments)
    # Show one: with cgroup v1, each hierarchy repeats the same problem.
    yield from _list_all(FAILURE, problems[:1])
    if len(problems) > 1:
        yield FAILURE, '"nova-prio-host check" shows %d more.' % (
            len(problems) - 1)


def _check_guests(conf: cfg.ConfigOpts) -> _Findings:
    """Name the guests of this host that an operator should change.

    They are named in the order in which the operator should act.
    """
    from nova import exception
    from nova_prio.admin.audit import finding
    from nova_prio.admin.audit import guest_audit
    try:
        # This host, and the guests that libvirt runs on it.
        host, running = guest_audit.read_guests(conf)
    except exception.Invalid:
        # A CPU set of the configuration cannot be read: _check_compute says
        # which one.
        return
    except guest_audit.GuestsUnreadable as error:
        yield WARNING, (
            'The guests of this host are not checked: %s; start libvirt, and '
            'run this as a user who may connect to it.'
            % str(error).rstrip('.'))
        return
    found = list(guest_audit.check(host, running))
    # Kind of finding -> clause that says what is wrong with the guests.
    for kind, state in _OLD_GUESTS.items():
        # Each is the UUID of a guest, and its CPUs in libvirt.
        named = ['%s (%s)' % (each.consumer, each.libvirt)
                 for each in found if each.kind == kind]
        if named:
            yield WARNING, '%s: %s. %s' % (
                state, ', '.join(named), finding.REMEDIES[kind])
    # Of all releases of Nova, only 33 cannot live-migrate guests that an older
    # one started without I/O threads. The sentence names these guests; it is
    # '' if there are none.
    sentence = guest_audit.describe_immovable(running)
    if sentence and guest_audit.needs_io_threads():
        # This host has Nova 33.
        yield WARNING, sentence
    elif sentence and guest_audit.precedes_nova_33():
        # This host has an older release: there is nothing to do yet.
        yield SUCCESS, sentence


def _check_databases(find: _FindInDatabases, subject: str,
                     conf: cfg.ConfigOpts) -> _Findings:
    """Run a check that reads Nova's databases, if the configuration has them.

    :param find: function that yields the findings
    :param subject: plural noun that names what the check is about
    """
    if not conf.api_database.connection:
        yield SUCCESS, (
            '[api_database] connection is not set, as on a compute host; '
            '%s are not checked.' % subject)
        return
    # These imports take a second.
    from nova import context

    from nova_prio.admin import host_inventory
    try:
        host_inventory.connect_databases(conf)
        # The list is complete before a finding is yielded, so that each error
        # of the databases is raised here.
        findings = list(find(conf, context.get_admin_context()))
    except host_inventory.DATABASE_ERRORS as error:
        yield FAILURE, (
            'The database of [api_database] connection cannot be read: %s; '
            'correct the option, or the database.'
            % host_inventory.format_first_line(error))
        return
    yield from findings


def _find_aggregate_faults(
        conf: cfg.ConfigOpts,
        context: nova_context.RequestContext) -> _Findings:
    """Check the host aggregates in Nova and in Placement."""
    # These imports take a second.
    from nova import objects

    from nova_prio.admin import host_inventory
    aggregates = list(objects.AggregateList.get_all(context))
    hosts, silent_cells = host_inventory.list_hosts(context)
    for cell in silent_cells:
        yield WARNING, (
            'Cell %s does not answer, so its hosts are not checked; check '
            'its database.' % cell)
    yield from _list_all(WARNING, aggregate_checks.find_warnings(
        conf, list_services(conf), aggregates, hosts,
        all_hosts_known=not silent_cells))
    # Placement has its own copy of the aggregates, the mirror. This reads it.
    yield from _list_all(WARNING, aggregate_checks.find_mirror_warnings(
        aggregates, hosts))


def _describe_candidates(
        conf: cfg.ConfigOpts,
        context: nova_context.RequestContext) -> _Findings:
    """Yield how many candidates a request of a large cloud should have.

    Only Placement knows whether it returns them in random order.
    """
    # This import takes a second.
    from nova import objects
    hosts = len(objects.HostMappingList.get_all(context))
    if hosts < _MANY_HOSTS:
        return
    candidates = conf.scheduler.max_placement_results
    advice = 'Make sure'
    if candidates > _ENOUGH_CANDIDATES:
        advice = (
            'Requests take less time with %d, but filters then see only these '
            'hosts: keep more if filters refuse over 90 %% of the hosts of '
            'Placement for some instances. First make sure'
            % _ENOUGH_CANDIDATES)
    elif candidates < _ENOUGH_CANDIDATES:
        advice = 'Set it to %d or more, and make sure' % _ENOUGH_CANDIDATES
    yield SUCCESS, (
        'This cloud has %d compute hosts, and [scheduler] '
        'max_placement_results is %d. %s that [placement] '
        'randomize_allocation_candidates is true in the configuration of '
        'Placement: otherwise, it always returns the same hosts first, and '
        'instances may be refused although others have room.'
        % (hosts, candidates, advice))


def _find_pin_conflicts(
        conf: cfg.ConfigOpts,
        context: nova_context.RequestContext) -> _Findings:
    """Find the pairs of instances that are pinned to the same CPU."""
    # This import takes a second.
    from nova_prio.admin.audit import pin_conflicts
    return _list_all(WARNING, pin_conflicts.find_warnings(context))


def list_checks(host_arguments: abc.Sequence[str],
                ) -> list[tuple[str, str | None, _Check]]:
    """Return the checks, in their order.

    :param host_arguments: arguments of nova-prio-host, which finds the
        problems of the cgroups
    :returns: list of (title, service, check). A check with a service applies
        only if the configuration is that of this service.
    """
    return [
        ('Use of the package', None, _check_use),
        ('Release of Nova', None, _check_release),
        ('Configuration of nova-api', interfaces.API, _check_api),
        ('Configuration of nova-scheduler', interfaces.SCHEDULER,
         _check_scheduler),
        ('Configuration of nova-compute', interfaces.COMPUTE, _check_compute),
        ('Cgroups of the compute host', interfaces.COMPUTE,
         functools.partial(_check_cgroups, host_arguments)),
        ('Host aggregates', None, functools.partial(
            _check_databases, _find_aggregate_faults, 'host aggregates')),
        ('Dedicated CPUs of instances', None, functools.partial(
            _check_databases, _find_pin_conflicts, 'instances')),
        ('Candidates of a request', interfaces.SCHEDULER, functools.partial(
            _check_databases, _describe_candidates, 'candidates')),
        ('Guests of the compute host', interfaces.COMPUTE, _check_guests)]


def run_check(conf: cfg.ConfigOpts, service: str | None, find: _Check,
              commands: object = None) -> upgradecheck.Result:
    """Return the result of one check.

    :param service: the check is only for configurations of this service;
        None for all
    :param find: the check: function of ``conf`` that yields (Code, sentence)
    :param commands: not used; oslo.upgradecheck passes its UpgradeCommands
    """
    if service and service not in list_services(conf):
        return upgradecheck.Result(
            SUCCESS, 'This configuration does not set up %s '
            'for priority instances.' % service)
    worst, sentences = SUCCESS, []
    for code, sentence in find(conf):
        # Their order is SUCCESS, WARNING, FAILURE.
        worst = max(worst, code)
        sentences.append(sentence)
    return upgradecheck.Result(worst, ' '.join(sentences) or None)
