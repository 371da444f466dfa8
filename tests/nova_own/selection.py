# SPDX-License-Identifier: Apache-2.0

"""Which of Nova's own tests run with this package loaded.

The unit tests are those that concern the mixed CPU policy. The functional
tests are the whole suites of the features that this package touches.
"""

import inspect
import re
import typing

#: Tests that name it, or pinned CPUs, in their names or their code.
PINNED = 'mixed|pcpu|dedicated|cpu_policy|cpu_pinning'
ALL = ''


class Suite(typing.NamedTuple):
    """The tests of one of Nova's modules that run.

    :param at_least: the least number of tests that the pattern selects
    :param pattern: regular expression for the name and the code of a test
    :param short: regular expression for the names of those tests that are in
        the short form
    """

    at_least: int
    pattern: str = ALL
    short: str = 'mixed'


#: Nova's module -> Suite.
MODULES = {
    'unit.api.openstack.compute.test_server_topology': Suite(4),
    'unit.api.validation.extra_specs.test_validators': Suite(5),
    'unit.compute.test_api': Suite(4, PINNED),
    'unit.compute.test_claims': Suite(35),
    'unit.compute.test_compute': Suite(5, PINNED),
    'unit.conductor.tasks.test_live_migrate': Suite(4, PINNED),
    'unit.limit.test_placement': Suite(1, PINNED),
    'unit.objects.test_instance': Suite(2, PINNED),
    'unit.objects.test_instance_numa': Suite(42),
    'unit.objects.test_numa': Suite(58),
    'unit.objects.test_request_spec': Suite(2, PINNED),
    'unit.policies.test_server_topology': Suite(4),
    'unit.scheduler.filters.test_numa_topology_filters': Suite(16),
    'unit.scheduler.test_utils': Suite(8, PINNED),
    'unit.test_metadata': Suite(1, PINNED),
    'unit.virt.libvirt.cpu.test_api': Suite(26),
    'unit.virt.libvirt.test_driver': Suite(51, PINNED),
    'unit.virt.test_hardware': Suite(230),
    'functional.compute.test_live_migration': Suite(3, short='attachment'),
    'functional.libvirt.test_evacuate': Suite(8, short='Flat'),
    'functional.libvirt.test_live_migration': Suite(
        5, short='cpu_shared_set|Queued.*abort'),
    'functional.libvirt.test_numa_live_migration': Suite(
        13, short='PositiveTests.*migration$|test_rollback$'),
    'functional.libvirt.test_numa_servers': Suite(
        55, short=r'^NUMAServersTest\..*(mixed|resize_vcpu)'),
    'functional.libvirt.test_pci_in_placement': Suite(
        34, short='heal_single|new_compute_init'),
    'functional.libvirt.test_power_manage': Suite(18, short='Mixed'),
    'functional.libvirt.test_reshape': Suite(1, short='vgpu'),
    'functional.libvirt.test_rt_servers': Suite(3, short='success|mask'),
    'functional.libvirt.test_shared_resource_provider': Suite(
        3, short='configuration'),
    'functional.test_server_group': Suite(
        130, short='V295.*(with_soft_affinity$|_confirm)|MultiCell'),
}
PACKAGE = 'nova.tests.'

#: Modules whose computes have one of Nova's fake drivers, which this package
#: cannot replace. Its API, scheduler and tracker are loaded there, too.
FAKE_DRIVERS = ('functional.compute.test_live_migration',
                'functional.test_server_group')


def _each(prefix, tests, reason):
    return {'%s.%s' % (prefix, test): reason for test in tests}


_NEEDS_FALLBACK = (
    'A pinned guest gets VCPU on a host without cpu_dedicated_set. The option '
    '[workarounds] disable_fallback_pcpu_query ends that, and our scheduler '
    'demands it. With that option the test fails without this package, too.')
_SERVERS = 'functional.libvirt.test_numa_servers'
_MIGRATION = 'functional.libvirt.test_numa_live_migration'
_PINNED_SERVERS = (
    'test_create_server_with_dedicated_policy_fails',
    'test_create_server_with_dedicated_policy_old_configuration',
    'test_create_server_with_isolate_thread_policy_fails',
    'test_create_server_with_isolate_thread_policy_old_configuration',
    'test_create_server_with_numa_topology_and_cpu_topology_and_pinning',
)
#: Full name of a test that has to fail with this package -> why.
FAILING = {
    **_each(_SERVERS + '.NUMAServersTest', _PINNED_SERVERS, _NEEDS_FALLBACK),
    **_each(_SERVERS + '.NUMAServerTestWithCountingQuotaFromPlacement',
            _PINNED_SERVERS, _NEEDS_FALLBACK),
    **_each(_SERVERS, (
        'ReshapeForPCPUsTest.test_vcpu_to_pcpu_reshape',
        'NUMAServersRebuildTests.'
        'test_rebuild_server_with_different_numa_topology_fails',
        'NUMAServersRebuildTests.test_rebuild_server_with_numa',
        'NUMAServersRebuildTests.test_rebuild_server_with_numa_inplace_fails',
    ), _NEEDS_FALLBACK),
    **_each(_MIGRATION, (
        'NUMALiveMigrationLegacyTests.test_conductor_pinned',
        'NUMALiveMigrationLegacyTests.test_source_pinned_dest_unpinned',
        'NUMALiveMigrationLegacyRollbackTests.test_conductor_pinned',
        'NUMALiveMigrationLegacyRollbackTests.'
        'test_source_pinned_dest_unpinned',
        'NUMALiveMigrationNegativeTests.test_different_page_sizes',
        'NUMALiveMigrationNegativeTests.test_insufficient_resources',
    ), _NEEDS_FALLBACK),
    **_each(_MIGRATION + '.NUMALiveMigrationRollbackTests', (
        'test_bug_1894095_pre_drop', 'test_bug_1894095_post_drop',
    ), 'It asserts wrong pins, which are bug 1894095 of Nova. With this '
       'package the pins stay right.'),
}
#: Full name of a test that is left out -> why.
LEFT_OUT = _each(_SERVERS + '.NUMAServersWithNetworksTest', (
    'test_attach_interface_with_network_affinity_violation',
), 'Nova skips it: bug 1855332.')


def full_name(item):
    """Return the name of a test: module below nova.tests, class and test."""
    return '%s.%s.%s' % (item.module.__name__.removeprefix(PACKAGE),
                         item.cls.__name__ if item.cls else '', item.name)


def has_fake_driver(cls):
    """Return whether the computes of a test class have a fake driver."""
    return cls.__module__.removeprefix(PACKAGE) in FAKE_DRIVERS


def _suite(item):
    return MODULES.get(item.module.__name__.removeprefix(PACKAGE))


def is_chosen(item):
    """Return whether a test is to be run."""
    suite = _suite(item)
    if suite is None:
        return True
    name = full_name(item)
    source = inspect.getsource(inspect.unwrap(item.function))
    return name not in LEFT_OUT and bool(re.search(
        suite.pattern, name + source, re.DOTALL | re.IGNORECASE))


def is_in_short(item):
    """Return whether a chosen test is in the short form, too."""
    suite = _suite(item)
    return suite is None or bool(re.search(
        suite.short, '%s.%s' % (item.cls.__name__, item.name)))
