# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Trials of the running Nova, for :mod:`nova_prio.behaviours`.

A trial is a function without arguments that returns what Nova does instead of
what this package relies on, or None. It may raise whatever Nova raises.
"""

import collections
import contextlib
import importlib
import pkgutil

from nova_prio import contract
from nova_prio import priority_hosts
from nova_prio import seams


@contextlib.contextmanager
def _options(**values):
    """Yield Nova's configuration with other values.

    Options that this Nova does not have are left out.

    :param values: group__option -> value
    """
    conf = seams.register_options()
    overrides = {}
    for name, value in values.items():
        group, option = name.split('__')
        if contract.is_registered(conf, group, option):
            overrides[group, option] = value
    for (group, option), value in overrides.items():
        conf.set_override(option, value, group=group)
    try:
        yield conf
    finally:
        for group, option in overrides:
            conf.clear_override(option, group=group)


def importable(name):
    """Return a trial: each module of a package of ours can be imported."""
    def trial():
        broken = {}
        for module in pkgutil.walk_packages(
                importlib.import_module(name).__path__, name + '.',
                onerror=lambda name: None):
            try:
                importlib.import_module(module.name)
            except Exception as error:
                broken[module.name] = error
        return '; '.join('%s: %s' % pair for pair in broken.items()) or None

    return trial


def os_vif():
    """The driver is found where os-vif's plug-ins have been loaded."""
    import os_vif
    from oslo_utils import importutils
    os_vif.initialize(reset=True)
    found = importutils.import_class('nova.virt.' + priority_hosts.DRIVER)
    from nova.virt.libvirt import driver
    if not issubclass(found, driver.LibvirtDriver):
        return '%s is not derived from that of libvirt' % found.__name__


def other_driver():
    """No driver is found there that is not ours."""
    import os_vif
    from oslo_utils import importutils
    os_vif.initialize(reset=True)
    with contextlib.suppress(ImportError):
        importutils.import_class('nova.virt.prio.OtherDriver')
        return 'it finds one'


def driver_before_tracker():
    """nova-compute loads the driver first, which brings the tracker."""
    from nova.compute import manager
    names = manager.ComputeManager.__init__.__code__.co_names
    if names.index('load_compute_driver') > names.index('ResourceTracker'):
        return 'it is made first'


def tracker():
    """nova-compute makes the resource tracker that the driver brings."""
    from nova.compute import manager
    from nova.compute import resource_tracker

    from nova_prio.compute import claims
    from nova_prio.compute import tracker
    before = resource_tracker.ResourceTracker, resource_tracker.claims
    try:
        seams.install_tracker(tracker.PriorityResourceTracker,
                              claims.PriorityClaim,
                              claims.PriorityMoveClaim)
        found = manager.resource_tracker.ResourceTracker
        if found is not tracker.PriorityResourceTracker:
            return 'it makes a %s.%s' % (found.__module__, found.__name__)
    finally:
        resource_tracker.ResourceTracker, resource_tracker.claims = before


def isolated_emulator_threads(mask, finds_a_place):
    """Return a trial: the dedicated vCPUs that such threads go with.

    :param mask: of dedicated vCPUs, of 8 on two nodes
    """
    def trial():
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
                flavor, objects.ImageMeta.from_dict({})),
            provider_mapping=None)
        if (found is not None) is not finds_a_place:
            return 'it finds %s place' % ('no' if finds_a_place else 'a')

    return trial


def pci_claims():
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


def validators(is_enabled, accepted, refused):
    """Return a trial: what nova-api says of extra specs.

    :param is_enabled: ``[nova_prio] enabled``
    :param accepted: tuple of (extra spec, value)
    :param refused: likewise
    """
    def trial():
        from nova.api.validation.extra_specs import validators
        from nova import exception
        found = []
        with _options(nova_prio__enabled=is_enabled):
            # As a nova-api that starts.
            validators.VALIDATORS.clear()
            validators.load_validators()
            for name, value in accepted:
                try:
                    validators.validate(name, value)
                except exception.ValidationError as error:
                    found.append(error.format_message())
            for name, value in refused:
                with contextlib.suppress(exception.ValidationError):
                    validators.validate(name, value)
                    found.append("it accepts %s = '%s'" % (name, value))
        return '; '.join(found) or None

    return trial


def fold():
    """The API that nova-api calls is one with the fold around it."""
    from nova.api.openstack.compute import servers
    from nova.compute import api

    from nova_prio.api import validators
    with _options(nova_prio__enabled=True):
        validators.register()
        lacking = [
            method.__qualname__ for method in (
                servers.ServersController.create, api.API.create,
                api.API.resize, api.API.evacuate, api.API.live_migrate)
            if method.__globals__ is not vars(seams)]
    if lacking:
        return 'nothing of it is in %s' % ', '.join(lacking)


def policy_rules():
    """Our policy rules are among those that Nova registers."""
    from nova import policies

    from nova_prio.api import validators
    from nova_prio import policies as ours
    with _options(nova_prio__enabled=True):
        validators.register()
    found = collections.Counter(rule.name for rule in policies.list_rules())
    wrong = [rule.name for rule in ours.list_rules() if found[rule.name] != 1]
    if wrong or 'os_compute_api:servers:create' not in found:
        return 'it lists %s' % (', '.join(wrong) or 'none of its own')


_SCHEDULER_OPTIONS = {
    'filter_scheduler__enabled_filters': ['ComputeFilter', 'PriorityFilter'],
    'workarounds__disable_fallback_pcpu_query': True}


def loadable(module, handler, loaders, names):
    """Return a trial: what a loader of nova-scheduler finds, once each.

    :param module: of Nova
    :param handler: name of its loader
    :param loaders: class paths, as the options give them
    :param names: of classes
    """
    def trial():
        with _options(**_SCHEDULER_OPTIONS):
            loader = getattr(importlib.import_module(module), handler)()
            found = collections.Counter(
                cls.__name__ for cls in loader.get_matching_classes(loaders))
        wrong = ['%d times %s' % (found[name], name)
                 for name in names if found[name] != 1]
        if wrong:
            return 'it finds %s' % ', '.join(wrong)

    return trial


def narrowing():
    """The scheduler passes requests through our request filter."""
    from nova.scheduler import request_filter

    from nova_prio.scheduler import narrowing
    from nova_prio.scheduler import start
    with _options(**_SCHEDULER_OPTIONS):
        start.start()
    if narrowing.narrow not in request_filter.ALL_REQUEST_FILTERS:
        return 'ours is not among them'


def weights():
    """Weights above one stay: the steps of groups are worth them."""
    from nova import weights

    from nova_prio.scheduler.weights import group_weighers
    weigher = group_weighers.SoftAffinityWeigher
    given = [0, 1, 3]
    found = list(weights.normalize(
        given, minval=weigher.minval, maxval=weigher.maxval))
    if found != given:
        return 'it makes %s of %s' % (found, given)
