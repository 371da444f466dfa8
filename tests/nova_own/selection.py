# SPDX-License-Identifier: Apache-2.0

"""Select the tests of Nova that run with nova_prio loaded.

The selected unit tests concern the mixed CPU policy, or the classes that
nova_prio replaces: claims, resource tracker and libvirt driver. The functional
tests are the whole suites of the features that nova_prio changes.
"""

import inspect
import re
import typing

#: Pattern for tests of the mixed CPU policy or of pinned CPUs.
PINNED = 'mixed|pcpu|dedicated|cpu_policy|cpu_pinning'
ALL = ''
NONE = '$^'


class Suite(typing.NamedTuple):
    """The selected tests in one of Nova's modules.

    :param at_least: minimum number of tests that the pattern must select
    :param pattern: regular expression for the name and the code of a test
    :param short: regular expression for the names of the tests that run with
        --short
    """

    at_least: int
    pattern: str = ALL
    short: str = 'mixed'


#: Nova's module -> Suite.
MODULES = {
    'unit.api.openstack.compute.test_server_topology': Suite(4),
    'unit.api.validation.extra_specs.test_validators': Suite(5),
    'unit.compute.test_api': Suite(4, PINNED),
    'unit.compute.test_claims': Suite(35, short=ALL),
    'unit.compute.test_compute': Suite(5, PINNED),
    'unit.compute.test_resource_tracker': Suite(
        125, short='InstanceClaim|Resize|UpdateUsage'),
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
    'unit.virt.libvirt.test_driver': Suite(1100),
    # Tests of functions that nova_prio calls.
    'unit.virt.test_hardware': Suite(230, short=NONE),
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

#: Modules whose computes have a fake driver of Nova, which nova_prio cannot
#: replace. The API, scheduler and tracker are still those of nova_prio.
FAKE_DRIVERS = ('functional.compute.test_live_migration',
                'functional.test_server_group')


def _each(prefix, tests, reason):
    """Return dict, full name of a test -> reason."""
    return {'%s.%s' % (prefix, test): reason for test in tests}


_NEEDS_FALLBACK = (
    'A pinned guest gets VCPU on a host without cpu_dedicated_set. The option '
    '[workarounds] disable_fallback_pcpu_query disables this, and nova_prio '
    'requires the option. With the option, the test also fails in stock Nova.')
_REAL = 'The test gives an object that lacks what each real one has: '
_TRACKER = 'unit.compute.test_resource_tracker'
_DRIVER = 'unit.virt.libvirt.test_driver.LibvirtConnTestCase'
_SERVERS = 'functional.libvirt.test_numa_servers'
_MIGRATION = 'functional.libvirt.test_numa_live_migration'
_PINNED_SERVERS = (
    'test_create_server_with_dedicated_policy_fails',
    'test_create_server_with_dedicated_policy_old_configuration',
    'test_create_server_with_isolate_thread_policy_fails',
    'test_create_server_with_isolate_thread_policy_old_configuration',
    'test_create_server_with_numa_topology_and_cpu_topology_and_pinning',
)
#: Full name of a test that must fail with nova_prio -> reason.
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
    'unit.compute.test_compute.ComputeTestCase.'
    'test_confirm_resize_with_numa_topology_and_cpu_pinning': (
        'The test makes a tracker of a subclass of Nova\'s. Without our '
        'driver, nova_prio makes one of Nova\'s own class.'),
    **_each(_TRACKER, (
        'TestUpdateComputeNode.'
        'test_existing_compute_node_updated_diff_updated_at',
        'TestUpdateComputeNode.'
        'test_existing_compute_node_updated_same_resources',
        'TestResize.test_resize_claim_same_host',
        'TestResize.test_resize_claim_two_instances',
    ), 'The tracker adds the report of the host to the stats of the node, and '
       'saves the node if the report is new.'),
    **_each(_TRACKER + '.TestUpdateUsageFromInstance', (
        'test_building', 'test_deleted', 'test_shelve_offloading',
        'test_unshelving',
    ), 'The usage of an instance has a lease. Two leases are never equal, and '
       'the test makes a second one to compare.'),
    **_each(_TRACKER + '.TestUpdateUsageFromMigrations', (
        'test_evacuate_and_resizing_states', 'test_live_migrating_state',
    ), _REAL + 'an instance without host.'),
    **_each(_DRIVER, (
        'test_rollback_live_migration_at_dest_not_shared',
        'test_rollback_live_migration_at_dest_shared',
    ), _REAL + 'an instance without flavor.'),
    **_each(_DRIVER, ('test_get_memnode_numa_config_from_instance',),
            _REAL + 'a dict in place of a flavor.'),
    **_each(_DRIVER, ('test_sanitize_log_to_xml',),
            _REAL + 'a dict in place of an instance.'),
    **_each(_DRIVER, ('test_public_api_signatures',),
            'The driver has methods of its own, which the tracker calls.'),
}
#: Full name of a test that is not selected -> reason.
EXCLUDED = {
    **_each(_SERVERS + '.NUMAServersWithNetworksTest', (
        'test_attach_interface_with_network_affinity_violation',
    ), 'Nova skips this test: bug 1855332.'),
    **_each('unit.virt.libvirt.test_driver', (
        'LibvirtNonblockingTestCase.test_connection_to_primitive',
        'LibvirtNonblockingTestCase.test_tpool_execute_calls_libvirt',
    ), 'Nova skips these tests if it runs with threads.'),
    **_each('functional.libvirt.test_live_migration', (
        'LiveMigrationQueuedAbortTestLeftoversRemoved.'
        'test_queued_live_migration_abort_leftovers_removed',
    ), 'Nova completes a migration before it deletes its allocation, and the '
       'test does not wait for that.'),
    **_each('unit.virt.libvirt.test_driver', (
        'LXCSnapshotTests.test_raw_with_rbd_clone_failure_does_cold_snapshot',
    ), 'Nova skips this test: LXC has no managed save.'),
}


def full_name(item):
    """Return the name of a test: module below nova.tests, class and test."""
    return '%s.%s.%s' % (item.module.__name__.removeprefix(PACKAGE),
                         item.cls.__name__ if item.cls else '', item.name)


def has_fake_driver(cls):
    """Return whether the computes of a test class have a fake driver."""
    return cls.__module__.removeprefix(PACKAGE) in FAKE_DRIVERS


def _suite(item):
    """Return the Suite of a test, or None for a test of this project."""
    return MODULES.get(item.module.__name__.removeprefix(PACKAGE))


def is_selected(item):
    """Return whether a test is selected."""
    suite = _suite(item)
    if suite is None:
        return True
    name = full_name(item)
    source = inspect.getsource(inspect.unwrap(item.function))
    return name not in EXCLUDED and bool(re.search(
        suite.pattern, name + source, re.DOTALL | re.IGNORECASE))


def is_in_short(item):
    """Return whether a selected test also runs with --short."""
    suite = _suite(item)
    return suite is None or bool(re.search(
        suite.short, '%s.%s' % (item.cls.__name__, item.name)))
