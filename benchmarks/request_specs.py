# SPDX-License-Identifier: Apache-2.0

"""The requests of the benchmark, as nova-conductor makes them."""

import dataclasses
import uuid

from nova import context
from nova import objects
from nova.objects import fields
from nova.virt import hardware

from benchmarks import hosts

_HIGH = {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}
_MIXED = {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed',
          'hw:cpu_dedicated_mask': '0-1'}


@dataclasses.dataclass(frozen=True)
class Request:
    """A RequestSpec, and the allocations that Placement would create.

    ``key`` is the name of the request in the figures. ``hosts`` are keyword
    arguments of ``hosts.host``, for hosts on which the request may run.
    ``resources`` is a dict, resource class -> int.
    """

    key: str
    spec: object
    hosts: dict
    resources: dict


def _request(key, extra_specs, has_pci_request=False, physnets=(), vcpus=4,
             memory_mb=1024, **of_hosts):
    flavor = objects.Flavor(
        id=1, name='f', flavorid='f', vcpus=vcpus, memory_mb=memory_mb,
        root_gb=1,
        ephemeral_gb=0, swap=0, vcpu_weight=0, rxtx_factor=1.0,
        disabled=False, is_public=True, description=None,
        extra_specs=extra_specs)
    image = objects.ImageMeta.from_dict({
        'id': str(uuid.uuid4()), 'name': 'image', 'status': 'active',
        'container_format': 'bare', 'disk_format': 'qcow2', 'min_ram': 0,
        'min_disk': 0, 'size': 0, 'properties': {}})
    pci_requests = [objects.InstancePCIRequest(
        count=1, spec=[dict(hosts.PCI_DEVICE)], alias_name='nic',
        request_id=str(uuid.uuid4()), requester_id=None,
        numa_policy=fields.PCINUMAAffinityPolicy.LEGACY)]
    topology = hardware.numa_get_constraints(flavor, image)
    spec = objects.RequestSpec.from_components(
        context.RequestContext('user', 'project'), str(uuid.uuid4()), image,
        flavor, topology, objects.InstancePCIRequests(
            requests=pci_requests if has_pci_request else []),
        {'scheduler_hints': {}}, None, None,
        security_groups=objects.SecurityGroupList(objects=[]))
    if physnets:
        spec.network_metadata = objects.NetworkMetadata(
            physnets=set(physnets), tunneled=False)
    pcpus = 0
    if topology:
        pcpus = (sum(len(cell.pcpuset) for cell in topology.cells) +
                 topology.emulator_threads_isolated)
    resources = {'PCPU': pcpus, 'VCPU': vcpus - min(pcpus, vcpus),
                 'MEMORY_MB': memory_mb, 'DISK_GB': 1}
    return Request(key, spec, of_hosts, {
        resource_class: amount for resource_class, amount in resources.items()
        if amount})


def high():
    """Return the request for one pinned NUMA cell and nothing else."""
    return _request('high', _HIGH)


def low():
    """Return the request for a low-priority instance."""
    return _request('low', {
        'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'})


def ordinary():
    """Return the request for an instance without a priority."""
    return _request('ordinary', {})


def build_sized(priority, is_stock, vcpus=4, memory_mb=1024, is_pinned=False):
    """Return the request for an instance of a size.

    :param priority: 'high', 'low' or None
    :param is_stock: whether it is for stock Nova, which knows no priority:
        high means pinned there, and low the same as None
    :param is_pinned: whether an instance without a priority is pinned
    """
    extra_specs = {}
    if priority == 'high' or is_pinned:
        extra_specs['hw:cpu_policy'] = 'dedicated'
    elif priority == 'low' and not is_stock:
        extra_specs['hw:cpu_policy'] = 'shared'
    if priority and not is_stock:
        extra_specs['hw:cpu_priority'] = priority
    return _request(priority or 'ordinary', extra_specs, vcpus=vcpus,
                    memory_mb=memory_mb)


def other_pinned():
    """Return all other requests for pinned CPUs.

    Mix hosts refuse the isolate thread policy, and Nova refuses it on hosts
    with threads. Therefore this request is for hosts without both. The request
    of an ordinary instance is for hosts without mix.
    """
    def build(name, extra_specs, **more):
        return _request('high.' + name, {**_HIGH, **extra_specs}, **more)

    return [
        _request('ordinary.pinned', {'hw:cpu_policy': 'dedicated'},
                 mix=False),
        build('two_cells', {'hw:numa_nodes': '2'}),
        build('require', {'hw:cpu_thread_policy': 'require'}),
        build('prefer', {'hw:cpu_thread_policy': 'prefer'}),
        build('isolate', {'hw:cpu_thread_policy': 'isolate'}, mix=False,
              has_threads=False),
        build('huge_pages', {'hw:mem_page_size': '2048'}),
        build('small_pages', {'hw:mem_page_size': 'small'}),
        build('emulator_threads', {'hw:emulator_threads_policy': 'isolate'}),
        _request('high.mixed', _MIXED),
        build('pci', {}, has_pci_request=True, has_pci_devices=True),
        build('network_metadata', {}, physnets=[hosts.PHYSICAL_NETWORK]),
    ]
