# SPDX-License-Identifier: Apache-2.0


"""Each contract with Nova holds, and is named if it does not."""

import sys
import types

from nova.compute import api
from nova.compute import manager
from nova.compute import resource_tracker
from nova import objects
from nova.scheduler import request_filter
import os_vif
import pytest

from nova_prio.admin import nova_check
from nova_prio.admin import nova_report
from nova_prio.api import compute_api
from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.virt import driver_alias

objects.register_all()


@pytest.mark.parametrize(
    'relied_on', nova_report.list_contracts(), ids=lambda each: each.name)
def test_contract_holds(relied_on):
    assert nova_report.check_contract(relied_on) is None


def _stock_api(monkeypatch):
    stock, = compute_api.PriorityAPI.__bases__
    monkeypatch.setattr(api, 'API', stock)
    monkeypatch.setattr(hooks, 'install_api', lambda *args: None)


def _no_plugins(monkeypatch):
    monkeypatch.setattr(os_vif, 'initialize', lambda reset: None)
    monkeypatch.delitem(sys.modules, 'nova.virt.prio', raising=False)


def _tracker_first(monkeypatch):
    def __init__(self):
        self.rt = resource_tracker.ResourceTracker()
        self.driver = manager.driver.load_compute_driver()

    monkeypatch.setattr(manager.ComputeManager, '__init__', __init__)


def _other_driver(monkeypatch):
    monkeypatch.setattr(driver_alias, 'OtherDriver', object, raising=False)


def _no_request_filters(monkeypatch):
    monkeypatch.setattr(request_filter, 'ALL_REQUEST_FILTERS', [])
    monkeypatch.setattr(hooks, 'install_request_filter', lambda *args: False)


def replaced(name, value):
    """Return a function that gives something of Nova another value."""
    return lambda monkeypatch: monkeypatch.setattr(name, value)


@pytest.mark.parametrize('break_nova, name, words', [
    (replaced('nova.api.validation.extra_specs.validators.load_validators',
              lambda: None),
     'enabled = true', "'hw:cpu_priority' does not appear"),
    (replaced('nova.api.validation.extra_specs.validators.validate',
              lambda name, value: None),
     'enabled = false', "it accepts hw:cpu_priority = 'high'"),
    (_stock_api, 'API that folds', 'it makes a nova.compute.api.API'),
    (replaced('nova.scheduler.filters.HostFilterHandler.get_matching_classes',
              lambda self, names: []),
     'PriorityFilter', 'it finds 0 times PriorityFilter, 0 times ComputeF'),
    (replaced('nova.scheduler.weights.HostWeightHandler.get_matching_classes',
              lambda self, names: []),
     'PriorityWeighter', 'it finds 0 times PriorityWeighter'),
    (_no_request_filters, 'runs the request filter',
     'that of nova-prio is not among them'),
    (replaced('nova.weights.normalize',
              lambda given, minval, maxval: [each / 3 for each in given]),
     'weights beyond one', 'it makes [0.0, 0.3'),
    (_no_plugins, 'os_vif makes', "cannot be tried: ModuleNotFoundError: No "
     "module named 'nova.virt.prio'"),
    (_other_driver, 'no other driver', 'it finds one'),
    (_tracker_first, 'before the resource', 'it is made first'),
    (replaced('nova.compute.manager.resource_tracker', types.SimpleNamespace(
        ResourceTracker=resource_tracker.ResourceTracker)),
     'tracker is that', 'it makes a nova.compute.resource_tracker.Res'),
    (replaced('nova.virt.hardware.numa_fit_instance_to_host',
              lambda *args, **kwargs: None),
     'go with dedicated', 'it finds no place'),
    (replaced('nova.virt.hardware.numa_fit_instance_to_host',
              lambda *args, **kwargs: 'a place'),
     'find no place', 'it finds a place'),
    (replaced('nova.pci.manager.PciDevTracker.allocate_instance',
              lambda tracker, instance: None),
     'PCI devices', 'it allocates others'),
    (replaced('nova_prio.compat.contract.ALL', (
        contract.Contract(contract.COMPUTE, 'x', lambda: 'x is gone'),)),
     'tracker is that', 'nova-compute would refuse to start'),
])
def test_broken_contract_is_named(break_nova, name, words, monkeypatch):
    relied_on, = (each for each in nova_check.ALL if name in each.name)
    # A first check installs the hooks.
    assert nova_report.check_contract(relied_on) is None
    break_nova(monkeypatch)
    assert words in nova_report.check_contract(relied_on)


def test_a_module_that_cannot_be_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / 'broken_here'
    package.mkdir()
    (package / '__init__.py').touch()
    assert nova_check.find_broken_modules('broken_here') is None
    (package / 'a.py').write_text('from nova.compute import gone')
    assert ("broken_here.a: cannot import name 'gone'" in
            nova_check.find_broken_modules('broken_here'))
