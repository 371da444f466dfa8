# SPDX-License-Identifier: Apache-2.0

"""What this package relies on in Nova beyond names: tried, not looked up.

:data:`ALL` lists what Nova does with what this package brings, and what this
package builds on. The process that tries it has the package loaded from then
on: a service tries none of it.
"""

import collections
import contextlib
import functools
import importlib
import inspect
import pkgutil

import os_vif
from oslo_utils import importutils

from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.model import aggregate_metadata
from nova_prio.virt import driver_alias

ALL = []


def _relied_on(service, name, *arguments):
    """Add a function, called with the arguments, to ALL as a Contract."""
    def add(function):
        ALL.append(contract.Contract(
            service, name, functools.partial(function, *arguments)))
        return function
    return add


@contextlib.contextmanager
def _options(**values):
    """Set group__option, of the options that this Nova has, for a while."""
    conf = hooks.register_options()
    overrides = [(group, option) for group, option in (
        name.split('__') for name in values)
        if contract.is_registered(conf, group, option)]
    for group, option in overrides:
        conf.set_override(option, values['%s__%s' % (group, option)], group)
    try:
        yield
    finally:
        for group, option in overrides:
            conf.clear_override(option, group)


@_relied_on(contract.API, 'nova_prio.api can be imported', 'nova_prio.api')
@_relied_on(contract.SCHEDULER, 'nova_prio.scheduler can be imported',
            'nova_prio.scheduler')
@_relied_on(contract.COMPUTE, 'nova_prio.compute can be imported',
            'nova_prio.compute')
@_relied_on(contract.COMMANDS, 'nova_prio.admin.audit can be imported',
            'nova_prio.admin.audit')
def can_import(name):
    """Each module of a package of ours can be imported."""
    broken = {}
    for module in pkgutil.walk_packages(
            importlib.import_module(name).__path__, name + '.',
            onerror=lambda name: None):
        try:
            importlib.import_module(module.name)
        except Exception as error:
            broken[module.name] = error
    return '; '.join('%s: %s' % pair for pair in broken.items()) or None


_EXTRA_SPEC = 'hw:cpu_priority'
_OTHER, _MIX, _PRIORITY = (
    'aggregate_instance_extra_specs:%s' % key
    for key in ('other', *aggregate_metadata.AGGREGATE_KEYS))


@_relied_on(
    contract.API, 'extra specs are validated, with [nova_prio] enabled = true',
    True, ((_EXTRA_SPEC, 'high'), (_EXTRA_SPEC, 'low'), (_OTHER, 'anything'),
           (_MIX, 'False'), (_PRIORITY, 'true')),
    ((_EXTRA_SPEC, 'High'), (_EXTRA_SPEC, ''), (_EXTRA_SPEC, 'medium'),
     (_MIX, ''), (_PRIORITY, 'high')))
@_relied_on(
    contract.API, 'extra specs are as in stock Nova, with [nova_prio] '
    'enabled = false', False, ((_PRIORITY, 'high'),),
    ((_EXTRA_SPEC, 'high'),))
def _validators(is_enabled, accepted, refused):
    from nova.api.validation.extra_specs import validators
    from nova import exception
    found = []
    if is_enabled:
        contract.check(contract.API)
    with _options(nova_prio__enabled=is_enabled):
        # As a nova-api that starts.
        validators.VALIDATORS.clear()
        validators.load_validators()
        for name, value in (*accepted, *refused):
            try:
                validators.validate(name, value)
                if (name, value) in refused:
                    found.append("it accepts %s = '%s'" % (name, value))
            except exception.ValidationError as error:
                if (name, value) in accepted:
                    found.append(error.format_message())
    return '; '.join(found) or None


@_relied_on(contract.API, 'nova-api makes the compute API that folds')
def _fold():
    from nova.api.openstack.compute import servers

    from nova_prio.api import validators
    validators.install_fold()
    found = servers.compute.API
    if not found.__module__.startswith('nova_prio.'):
        return 'it makes a %s.%s' % (found.__module__, found.__name__)
    resize = inspect.unwrap(found.resize)
    if '_check_quota_for_upsize' not in resize.__code__.co_names:
        return 'resize does not check the quota of the new flavor'
    if servers.ServersController.create.__globals__ is not vars(hooks):
        return 'nothing of it is in ServersController.create'


_SCHEDULER_OPTIONS = {
    'filter_scheduler__enabled_filters': ['ComputeFilter', 'PriorityFilter'],
    'workarounds__disable_fallback_pcpu_query': True}


@_relied_on(contract.SCHEDULER, 'the PriorityFilter is found beside those of '
            'Nova', 'filters.HostFilterHandler', 'filters.all_filters',
            ('PriorityFilter', 'ComputeFilter'))
@_relied_on(contract.SCHEDULER, 'the PriorityWeighter is found beside the '
            'weighers of Nova', 'weights.HostWeightHandler',
            'weights.all_weighers', ('PriorityWeighter', 'RAMWeigher'))
def _loadable(handler, every, names):
    contract.check(contract.SCHEDULER)
    with _options(**_SCHEDULER_OPTIONS):
        loader = importutils.import_class('nova.scheduler.' + handler)
        found = collections.Counter(
            cls.__name__ for cls in loader().get_matching_classes([
                'nova.scheduler.' + every, 'nova_prio.scheduler.' + every]))
    wrong = ['%d times %s' % (found[name], name)
             for name in names if found[name] != 1]
    if wrong:
        return 'it finds %s' % ', '.join(wrong)


@_relied_on(contract.SCHEDULER, 'request filters take the narrowing')
def _narrowing():
    from nova.scheduler import request_filter

    from nova_prio.scheduler import request_filter as prio_request_filter
    from nova_prio.scheduler import start
    with _options(**_SCHEDULER_OPTIONS):
        start.start()
    if prio_request_filter.restrict_request not in request_filter.ALL_REQUEST_FILTERS:
        return 'ours is not among them'


@_relied_on(contract.SCHEDULER, 'weights beyond one are left as they are')
def _weights():
    from nova import weights

    from nova_prio.scheduler.weights import group_weighers
    weigher = group_weighers.SoftAffinityWeigher
    given = [0, 1, 3]
    found = list(weights.normalize(
        given, minval=weigher.minval, maxval=weigher.maxval))
    if found != given:
        return 'it makes %s of %s' % (found, given)


def _import_driver(name):
    os_vif.initialize(reset=True)
    return importutils.import_class('nova.virt.' + name)


@_relied_on(contract.COMPUTE, "os_vif makes the driver '%s' importable"
            % driver_alias.DRIVER)
def _driver():
    found = _import_driver(driver_alias.DRIVER)
    from nova.virt.libvirt import driver
    if not issubclass(found, driver.LibvirtDriver):
        return '%s is not derived from that of libvirt' % found.__name__


@_relied_on(contract.COMPUTE, 'no other driver is found there')
def _other_driver():
    with contextlib.suppress(ImportError):
        _import_driver('prio.OtherDriver')
        return 'it finds one'


@_relied_on(contract.COMPUTE, 'the driver is loaded before the resource '
            'tracker is made')
def _driver_before_tracker():
    from nova.compute import manager
    names = manager.ComputeManager.__init__.__code__.co_names
    if names.index('load_compute_driver') > names.index('ResourceTracker'):
        return 'it is made first'


@_relied_on(contract.COMPUTE, 'the resource tracker is that of the driver')
def _tracker():
    from nova.compute import manager
    from nova.compute import resource_tracker

    from nova_prio.compute import claims
    from nova_prio.compute import resource_tracker as prio_resource_tracker
    before = resource_tracker.ResourceTracker, resource_tracker.claims
    try:
        hooks.install_tracker(prio_resource_tracker.PriorityResourceTracker,
                              claims.PriorityClaim, claims.PriorityMoveClaim)
        found = manager.resource_tracker.ResourceTracker
        if found is not prio_resource_tracker.PriorityResourceTracker:
            return 'it makes a %s.%s' % (found.__module__, found.__name__)
    finally:
        resource_tracker.ResourceTracker, resource_tracker.claims = before


@_relied_on(contract.COMPUTE, 'isolated emulator threads go with dedicated '
            'vCPUs of node 0', '3,7', True)
@_relied_on(contract.COMPUTE, 'isolated emulator threads without dedicated '
            'vCPUs on node 0 find no place', '7', False)
def _isolated_emulator_threads(mask, finds_a_place):
    from nova import objects
    from nova.virt import hardware
    objects.register_all()
    host = objects.NUMATopology(cells=[
        objects.NUMACell(
            id=number, cpuset=set(range(first, first + 8)),
            pcpuset=set(range(first + 8, first + 16)), memory=4096,
            cpu_usage=0, memory_usage=0, pinned_cpus=set(),
            siblings=[{cpu} for cpu in range(first, first + 16)],
            mempages=[objects.NUMAPagesTopology(
                size_kb=4, total=1048576, used=0)],
            socket=number, network_metadata=objects.NetworkMetadata(
                physnets=set(), tunneled=False))
        for number, first in enumerate((0, 16))])
    flavor = objects.Flavor(
        vcpus=8, memory_mb=256, root_gb=1, ephemeral_gb=0, swap=0,
        extra_specs={
            'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': mask,
            'hw:numa_nodes': '2', 'hw:emulator_threads_policy': 'isolate'})
    found = hardware.numa_fit_instance_to_host(
        host, hardware.numa_get_constraints(
            flavor, objects.ImageMeta.from_dict({})), provider_mapping=None)
    if (found is not None) is not finds_a_place:
        return 'it finds %s place' % ('no' if finds_a_place else 'a')


@_relied_on(contract.COMPUTE, 'PCI devices are allocated that are in the '
            'claims of their tracker')
def _pci_claims():
    from nova import objects
    from nova.pci import manager
    objects.register_all()
    tracker = manager.PciDevTracker.__new__(manager.PciDevTracker)
    tracker.pci_devs = []
    tracker._initial_instance_usage()
    device = objects.PciDevice(
        status='claimed', instance_uuid='of one', dev_type='type-PCI')
    tracker.claims['of one'] = [device]
    tracker.allocate_instance({'uuid': 'of one', 'pci_devices': []})
    if tracker.claims or device.status != 'allocated':
        return 'it allocates others'
