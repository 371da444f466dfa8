# SPDX-License-Identifier: Apache-2.0

"""Load nova_prio into Nova's own tests; a plug-in of pytest.

Nova's tests run as Nova ships them. They use the configuration of an operator
of priority hosts, and nova-api with the hooks of nova_prio. The filter, driver
and tracker of nova_prio replace Nova's own.
"""

import decimal
import functools
import importlib
import types
from unittest import mock

# Import this first: it decides between threads and eventlet for Nova.
from nova_prio_scenario import cloud  # noqa: I100

from nova.api.validation.extra_specs import validators
from nova.compute import claims as stock_claims
from nova.compute import resource_tracker as stock_tracker
import nova.conf
from nova.scheduler.filters import numa_topology_filter
from nova import test
from nova.tests import fixtures as nova_fixtures
from nova.tests.unit.compute import test_claims
from nova.tests.unit.compute import test_resource_tracker
from nova.virt import libvirt
from nova.virt.libvirt import driver as libvirt_driver
import pytest

from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.compat import interfaces
from nova_prio.compute import claims
from nova_prio.compute import priority_host
from nova_prio.compute import resource_tracker
from nova_prio.model import cpu_capacity
from nova_prio.scheduler.filters import priority_filter
from nova_prio.virt.libvirt import driver
from tests.nova_own import selection

CONF = nova.conf.CONF

STOCK_FILTER = 'NUMATopologyFilter'
PRIORITY_FILTER = 'PriorityFilter'
PRIORITY_WEIGHERS = 'nova_prio.scheduler.weights.all_weighers'
# A weigher of Nova that has no effect in these tests. nova-scheduler with
# nova_prio refuses to start without a weigher of Nova.
WEIGHER_WITHOUT_EFFECT = 'nova.scheduler.weights.io_ops.IoOpsWeigher'
#: The CPUs of a host without dedicated CPUs.
NO_CPUS = cpu_capacity.HostCPUs(
    dedicated=frozenset(), shared=frozenset(range(4)),
    ratio=decimal.Decimal(1), mix=False)


def enabled_filters(names):
    """Return filter names, with PriorityFilter for NUMATopologyFilter.

    :param names: list of the names of filters
    """
    return [name for name in names
            if name not in (STOCK_FILTER, PRIORITY_FILTER)] + [PRIORITY_FILTER]


class OperatorConf(nova_fixtures.ConfFixture):
    """Nova's configuration for tests, with the options of an operator."""

    def setUp(self):
        super().setUp()
        for group, options in (
                ('nova_prio', {'enabled': True}),
                ('workarounds', {'disable_fallback_pcpu_query': True}),
                ('filter_scheduler', {
                    'available_filters': [
                        'nova.scheduler.filters.all_filters',
                        'nova_prio.scheduler.filters.all_filters'],
                    'enabled_filters': enabled_filters(
                        CONF.filter_scheduler.enabled_filters),
                    'weight_classes': [
                        'nova.scheduler.weights.all_weighers',
                        PRIORITY_WEIGHERS],
                    'cpu_weight_multiplier': 0.0})):
            for name, value in options.items():
                self.conf.set_default(name, value, group=group)


def wrap_flags(stock):
    """Return a TestCase.flags that replaces the driver, filter and weighers.

    :param stock: TestCase.flags
    """
    def flags(self, **options):
        if options.get('compute_driver') == cloud.STOCK_DRIVER:
            options['compute_driver'] = cloud.PRIORITY_DRIVER
        if 'enabled_filters' in options:
            options['enabled_filters'] = enabled_filters(
                options['enabled_filters'])
        if 'weight_classes' in options:
            options['weight_classes'] = (
                options['weight_classes'] or [WEIGHER_WITHOUT_EFFECT]
            ) + [PRIORITY_WEIGHERS]
        stock(self, **options)
    return flags


def wrap_start_service(stock):
    """Return a TestCase.start_service that checks the classes of nova-compute.

    :param stock: TestCase.start_service
    """
    def start_service(self, name, *args, **kwargs):
        service = stock(self, name, *args, **kwargs)
        if name == 'compute':
            # With another driver, the tracker is Nova's own.
            has_our_driver = isinstance(
                service.manager.driver, driver.PriorityLibvirtDriver)
            assert has_our_driver or selection.has_fake_driver(type(self))
            assert has_our_driver == isinstance(
                service.manager.rt, resource_tracker.PriorityResourceTracker)
        return service
    return start_service


class RenamedFilter(priority_filter.PriorityFilter):
    """The PriorityFilter under the name of the NUMATopologyFilter."""

    def host_passes(self, host_state, spec_obj):
        """Return whether one host can take the instance.

        The flavors in Nova's unit tests lack attributes that every real flavor
        has.
        """
        flavor = spec_obj.flavor
        for name in ('vcpus', 'memory_mb'):
            if not flavor.obj_attr_is_set(name):
                setattr(flavor, name, 1)
        return super().host_passes(host_state, spec_obj)


RenamedFilter.__name__ = STOCK_FILTER


def wrap_filter_all(stock):
    """Return a PriorityFilter.filter_all that also calls Nova's filter.

    Nova's tests mock their filter and check that it was called.

    :param stock: PriorityFilter.filter_all
    """
    def filter_all(self, filter_obj_list, spec_obj):
        def call_filter(host_state):
            numa_topology_filter.NUMATopologyFilter().host_passes(
                host_state, spec_obj)
            return host_state
        return stock(self, map(call_filter, filter_obj_list), spec_obj)
    return filter_all


def wrap_cell_switch(stock):
    """Return a CellDatabases._wrap_target_cell without lock for one cell.

    A thread that holds the lock for cell0 and a thread that waits for the
    first thread block each other.

    :param stock: CellDatabases._wrap_target_cell
    """
    def wrap_target_cell(self, context, cell_mapping):
        has_one_cell = len(self._ctxt_mgrs) == len(('cell0', 'cell1'))
        switch = (self._real_target_cell if has_one_cell
                  else functools.partial(stock, self))
        return switch(context, cell_mapping)
    return wrap_target_cell


class PatchedModule(types.ModuleType):
    """A view of a module of Nova where some classes are replaced."""

    def __init__(self, stock, **replaced):
        super().__init__(stock.__name__)
        self.__dict__.update(_stock=stock, _replaced=replaced)

    def __getattr__(self, name):
        return self._replaced.get(name) or getattr(self._stock, name)

    def __setattr__(self, name, value):
        setattr(self._stock, name, value)

    def __delattr__(self, name):
        delattr(self._stock, name)


def make_priority_driver(found):
    """Give a driver of Nova's tests what our tracker needs; return it."""
    found.priority_host = priority_host.PriorityHost(
        mock.MagicMock(), lambda inventories: NO_CPUS)
    found.manages = functools.partial(
        driver.PriorityLibvirtDriver.manages, types.SimpleNamespace(mix=False))
    found.probe_before_move = mock.Mock()
    return found


class DummyTracker(test_claims.DummyTracker,
                   resource_tracker.PriorityResourceTracker):
    """The tracker of Nova's tests of claims, with what our claims need."""

    def __init__(self):
        super().__init__()
        self.driver = make_priority_driver(types.SimpleNamespace())
        self.priority_host = self.driver.priority_host
        self.provider_tree = None


def make_tracker(host, found, *args, **kwargs):
    """Return the installed tracker, for the driver of Nova's tests."""
    return stock_tracker.ResourceTracker(
        host, make_priority_driver(found), *args, **kwargs)


def wrap_fake_flavor(stock):
    """Return a function that makes flavors with extra specs, as all have."""
    def make(self, **attributes):
        return stock(self, **{'extra_specs': {}, **attributes})
    return make


def load():
    """Load nova_prio into this process."""
    hooks.register_options()
    # Check now: Nova's tests mock methods, which then have other parameters.
    contract.check(interfaces.COMPUTE)
    contract.check = lambda service: None
    CONF.set_default('enabled', True, group='nova_prio')
    # nova-api does this when it starts.
    validators.VALIDATORS.clear()
    validators.load_validators()
    hooks.install_tracker(resource_tracker.PriorityResourceTracker,
                          claims.PriorityClaim, claims.PriorityMoveClaim)
    nova_fixtures.ConfFixture = OperatorConf
    nova_fixtures.CellDatabases._wrap_target_cell = wrap_cell_switch(
        nova_fixtures.CellDatabases._wrap_target_cell)
    test.TestCase.flags = wrap_flags(test.TestCase.flags)
    test.TestCase.start_service = wrap_start_service(
        test.TestCase.start_service)
    # pytest reads some of the attributes after the test.
    test.TestCase._clear_attrs = lambda self: None
    numa_topology_filter.NUMATopologyFilter = RenamedFilter
    priority_filter.PriorityFilter.filter_all = wrap_filter_all(
        priority_filter.PriorityFilter.filter_all)
    # The tests of the driver create LibvirtDriver without the configuration.
    libvirt.driver = PatchedModule(
        libvirt_driver, LibvirtDriver=driver.PriorityLibvirtDriver)
    importlib.import_module('nova.tests.unit.virt.libvirt.test_driver')
    libvirt.driver = libvirt_driver
    test_claims.claims = PatchedModule(
        stock_claims, Claim=claims.PriorityClaim,
        MoveClaim=claims.PriorityMoveClaim)
    test_claims.DummyTracker = DummyTracker
    test_claims.ClaimTestCase._fake_flavor = wrap_fake_flavor(
        test_claims.ClaimTestCase._fake_flavor)
    test_resource_tracker.resource_tracker = PatchedModule(
        stock_tracker, ResourceTracker=make_tracker)


load()
#: Full names of all selected tests, before --short.
SELECTED = set()


def pytest_addoption(parser):
    """Add the option --short, for a run of two to three minutes."""
    parser.addoption('--short', action='store_true',
                     help='run a few tests of each module')


def pytest_collection_modifyitems(config, items):
    """Keep the selected tests, and mark the tests that must fail."""
    selected = [item for item in items if selection.is_selected(item)]
    SELECTED.update(map(selection.full_name, selected))
    if config.getoption('short'):
        selected = [item for item in selected if selection.is_in_short(item)]
    for item in selected:
        reason = selection.FAILING.get(selection.full_name(item))
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    config.hook.pytest_deselected(
        items=[item for item in items if item not in selected])
    items[:] = selected


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Report an expected failure as passed, also one that Nova expects."""
    report = yield
    if report.skipped and hasattr(report, 'wasxfail'):
        report.outcome = 'passed'
        del report.wasxfail
    return report
