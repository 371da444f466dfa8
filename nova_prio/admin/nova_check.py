# SPDX-License-Identifier: Apache-2.0

"""Probe the behaviour of Nova that this package relies on.

:mod:`nova_prio.compat.interfaces` lists the names that must exist in Nova;
:data:`ALL` lists how Nova must behave. The probes load the package into their
process, and install it in Nova: services must not run them.
"""

import collections
from collections import abc
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

_SCHEDULER_OPTIONS = {
    ('filter_scheduler', 'enabled_filters'): [
        'ComputeFilter', 'PriorityFilter'],
    ('workarounds', 'disable_fallback_pcpu_query'): True}


@contextlib.contextmanager
def _override_options(
        values: dict[tuple[str, str], object]) -> abc.Iterator[None]:
    """Override options for a time, except those that this Nova does not have.

    :param values: (group, option) -> value
    """
    conf = hooks.register_options()
    known = [key for key in values if contract.is_registered(conf, *key)]
    for group, option in known:
        conf.set_override(option, values[group, option], group)
    try:
        yield
    finally:
        for group, option in known:
            conf.clear_override(option, group)


def find_broken_modules(package: str) -> str | None:
    """Return the import errors of the modules of a package, or None."""
    errors = []
    for module in pkgutil.walk_packages(
            importlib.import_module(package).__path__, package + '.',
            onerror=lambda name: None):
        try:
            importlib.import_module(module.name)
        except Exception as error:
            errors.append('%s: %s' % (module.name, error))
    return '; '.join(errors) or None


def _probe_validators(is_enabled: bool, accepted: list[tuple[str, str]],
                      refused: list[tuple[str, str]]) -> str | None:
    """Return which (extra spec, value) nova-api validates wrongly, or None."""
    from nova.api.validation.extra_specs import validators
    from nova import exception
    errors = []
    if is_enabled:
        contract.check(contract.API)
    with _override_options({('nova_prio', 'enabled'): is_enabled}):
        # Load the validators as nova-api does when it starts.
        validators.VALIDATORS.clear()
        validators.load_validators()
        for extra_spec in (*accepted, *refused):
            try:
                validators.validate(*extra_spec)
                if extra_spec in refused:
                    errors.append("it accepts %s = '%s'" % extra_spec)
            except exception.ValidationError as error:
                if extra_spec in accepted:
                    errors.append(error.format_message())
    return '; '.join(errors) or None


def _probe_compute_api() -> str | None:
    """Return why nova-api would not write priorities into flavors, or None."""
    from nova.api.openstack.compute import servers

    from nova_prio.api import validators
    validators.install_fold()
    api = servers.compute.API
    if not api.__module__.startswith('nova_prio.'):
        return 'it makes a %s.%s' % (api.__module__, api.__name__)
    resize = inspect.unwrap(api.resize)
    if '_check_quota_for_upsize' not in resize.__code__.co_names:
        return 'resize does not check the quota of the new flavor'
    # A function that hooks defines has the globals of hooks.
    if servers.ServersController.create.__globals__ is not vars(hooks):
        return 'ServersController.create is not extended'


def _probe_loading(
        handler: str, all_classes: str, names: list[str]) -> str | None:
    """Return how often filters or weighers are found, or None if all once.

    :param handler: class of Nova that loads them, below ``nova.scheduler``
    :param all_classes: function that lists them, below ``nova.scheduler`` and
        below ``nova_prio.scheduler``
    """
    contract.check(contract.SCHEDULER)
    with _override_options(_SCHEDULER_OPTIONS):
        loader = importutils.import_class('nova.scheduler.' + handler)
        found = collections.Counter(
            cls.__name__ for cls in loader().get_matching_classes([
                package + all_classes
                for package in ('nova.scheduler.', 'nova_prio.scheduler.')]))
    wrong = ['%d times %s' % (found[name], name)
             for name in names if found[name] != 1]
    return 'it finds %s' % ', '.join(wrong) if wrong else None


def _probe_request_filters() -> str | None:
    """Return why nova-scheduler would not run the request filter, or None."""
    from nova.scheduler import request_filter as nova_request_filter

    from nova_prio.scheduler import request_filter
    from nova_prio.scheduler import start
    with _override_options(_SCHEDULER_OPTIONS):
        start.start()
    if (request_filter.restrict_request not in
            nova_request_filter.ALL_REQUEST_FILTERS):
        return 'that of nova-prio is not among them'


def _probe_weights() -> str | None:
    """Return how Nova changes the weights of a group weigher, or None.

    Nova must use them as they are, also those larger than one.
    """
    from nova import weights

    from nova_prio.scheduler.weights import group_weighers
    weigher = group_weighers.SoftAffinityWeigher
    given = [0, 1, 3]
    normalized = list(weights.normalize(
        given, minval=weigher.minval, maxval=weigher.maxval))
    if normalized != given:
        return 'it makes %s of %s' % (normalized, given)


def _probe_driver() -> str | None:
    """Return why Nova does not find the driver of this package, or None."""
    os_vif.initialize(reset=True)
    ours = importutils.import_class('nova.virt.' + driver_alias.DRIVER)
    from nova.virt.libvirt import driver
    if not issubclass(ours, driver.LibvirtDriver):
        return '%s is not derived from that of libvirt' % ours.__name__


def _probe_unknown_driver() -> str | None:
    """Return that Nova finds a driver that does not exist, or None."""
    os_vif.initialize(reset=True)
    with contextlib.suppress(ImportError):
        importutils.import_class('nova.virt.prio.OtherDriver')
        return 'it finds one'


def _probe_start_order() -> str | None:
    """Return that nova-compute makes the tracker too early, or None."""
    from nova.compute import manager
    names = manager.ComputeManager.__init__.__code__.co_names
    if names.index('load_compute_driver') > names.index('ResourceTracker'):
        return 'it is made first'


def _probe_tracker() -> str | None:
    """Return which other resource tracker nova-compute makes, or None."""
    from nova.compute import manager

    from nova_prio.compute import claims
    from nova_prio.compute import resource_tracker
    ours = resource_tracker.PriorityResourceTracker
    hooks.install_tracker(ours, claims.PriorityClaim, claims.PriorityMoveClaim)
    # The name by which ComputeManager makes its tracker.
    tracker = manager.resource_tracker.ResourceTracker
    if not issubclass(tracker, ours):
        return 'it makes a %s.%s' % (tracker.__module__, tracker.__name__)


def _probe_isolated_emulator_threads(mask: str, must_fit: bool) -> str | None:
    """Return how Nova fits isolated emulator threads wrongly, or None.

    :param mask: dedicated vCPUs; the two NUMA nodes have vCPUs 0-3 and 4-7
    :param must_fit: whether the instance must fit on an empty host
    """
    from nova import objects
    from nova.virt import hardware
    objects.register_all()
    # Each cell has 8 shared and 8 dedicated CPUs.
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
    needed = hardware.numa_get_constraints(
        flavor, objects.ImageMeta.from_dict({}))
    fitted = hardware.numa_fit_instance_to_host(
        host, needed, provider_mapping=None)
    if must_fit and fitted is None:
        return 'it finds no place'
    if fitted is not None and not must_fit:
        return 'it finds a place'


def _probe_pci_claims() -> str | None:
    """Return that Nova allocates other PCI devices than claimed, or None."""
    from nova import objects
    from nova.pci import manager
    objects.register_all()
    tracker = manager.PciDevTracker.__new__(manager.PciDevTracker)
    tracker.pci_devs = []
    tracker._initial_instance_usage()
    device = objects.PciDevice(
        status='claimed', instance_uuid='instance', dev_type='type-PCI')
    tracker.claims['instance'] = [device]
    tracker.allocate_instance({'uuid': 'instance', 'pci_devices': []})
    if tracker.claims or device.status != 'allocated':
        return 'it allocates others'


_EXTRA_SPEC = 'hw:cpu_priority'
_OTHER, _MIX, _PRIORITY = (
    'aggregate_instance_extra_specs:%s' % key
    for key in ('other', *aggregate_metadata.AGGREGATE_KEYS))

# Name, probe, arguments of the probe. A probe returns how the running Nova
# differs, or None.
_Probe = tuple[str, abc.Callable[..., str | None], *tuple[object, ...]]
#: Service -> its probes.
_PROBES: dict[str, list[_Probe]] = {
    contract.API: [
        ('nova_prio.api can be imported', find_broken_modules,
         'nova_prio.api'),
        ('extra specs are validated, with [nova_prio] enabled = true',
         _probe_validators, True,
         [(_EXTRA_SPEC, 'high'), (_EXTRA_SPEC, 'low'), (_OTHER, 'anything'),
          (_MIX, 'False'), (_PRIORITY, 'true')],
         [(_EXTRA_SPEC, 'High'), (_EXTRA_SPEC, ''), (_EXTRA_SPEC, 'medium'),
          (_MIX, ''), (_PRIORITY, 'high')]),
        ('extra specs are as in stock Nova, with [nova_prio] enabled = false',
         _probe_validators, False, [(_PRIORITY, 'high')],
         [(_EXTRA_SPEC, 'high')]),
        ('nova-api makes the compute API that folds', _probe_compute_api)],
    contract.SCHEDULER: [
        ('nova_prio.scheduler can be imported', find_broken_modules,
         'nova_prio.scheduler'),
        ('the PriorityFilter is found beside the filters of Nova',
         _probe_loading, 'filters.HostFilterHandler', 'filters.all_filters',
         ['PriorityFilter', 'ComputeFilter']),
        ('the PriorityWeighter is found beside the weighers of Nova',
         _probe_loading, 'weights.HostWeightHandler', 'weights.all_weighers',
         ['PriorityWeighter', 'RAMWeigher']),
        ('nova-scheduler runs the request filter', _probe_request_filters),
        ('weights beyond one are not changed', _probe_weights)],
    contract.COMPUTE: [
        ('nova_prio.compute can be imported', find_broken_modules,
         'nova_prio.compute'),
        ("os_vif makes the driver '%s' importable" % driver_alias.DRIVER,
         _probe_driver),
        ('no other driver is found there', _probe_unknown_driver),
        ('the driver is loaded before the resource tracker is made',
         _probe_start_order),
        ('the resource tracker is that of the driver', _probe_tracker),
        ('isolated emulator threads go with dedicated vCPUs of node 0',
         _probe_isolated_emulator_threads, '3,7', True),
        ('isolated emulator threads without dedicated vCPUs on node 0 find no '
         'place', _probe_isolated_emulator_threads, '7', False),
        ('PCI devices are allocated that are in the claims of their tracker',
         _probe_pci_claims)],
    contract.COMMANDS: [
        ('nova_prio.admin.audit can be imported', find_broken_modules,
         'nova_prio.admin.audit')]}

#: The behaviour that each service relies on.
ALL = [contract.Contract(service, name, functools.partial(probe, *arguments))
       for service, probes in _PROBES.items()
       for name, probe, *arguments in probes]
