# SPDX-License-Identifier: Apache-2.0

"""The requests of the fuzz, and the CPUs that their instances need.

The numbers are written by hand from the documented rules. No code of nova_prio
calculates them.
"""

import typing


class Request(typing.NamedTuple):
    """A flavor, a priority hint, and the CPUs that an instance needs.

    ``cells`` has one pair for each guest NUMA cell: its dedicated CPUs, an
    isolated emulator thread included, and its shared vCPUs. It is empty if
    the guest has no NUMA topology: all vCPUs are shared then.
    ``dedicated_vcpus`` are the numbers of the vCPUs that are pinned.
    """

    vcpus: int
    extra_specs: dict = {}
    hint: str | None = None
    priority: str | None = None
    cells: tuple = ()
    dedicated_vcpus: tuple = ()
    isolates_emulator: bool = False
    memory_mb: int = 256

    @property
    def dedicated(self):
        """Number of dedicated CPUs, an isolated emulator thread included."""
        return len(self.dedicated_vcpus) + self.isolates_emulator

    @property
    def shared(self):
        """Number of floating vCPUs."""
        return self.vcpus - len(self.dedicated_vcpus)

    @property
    def is_low(self):
        """Whether the priority is low."""
        return self.priority == 'low'

    @property
    def flavor(self):
        """The attributes that define the flavor of a request."""
        return (self.vcpus, self.memory_mb,
                tuple(sorted(self.extra_specs.items())))

    @property
    def resources(self):
        """The allocation in Placement, a dict."""
        found = {'VCPU': self.shared, 'PCPU': self.dedicated,
                 'MEMORY_MB': self.memory_mb, 'DISK_GB': 1}
        return {name: amount for name, amount in found.items() if amount}


_HIGH = {'hw:cpu_priority': 'high'}
_LOW = {'hw:cpu_priority': 'low'}
_MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}

REQUESTS = {
    'high-1': Request(1, _HIGH, None, 'high', ((1, 0),), (0,)),
    'high-3': Request(3, _HIGH, None, 'high', ((3, 0),), (0, 1, 2)),
    'high-cells': Request(
        4, {**_HIGH, 'hw:numa_nodes': '2'}, None, 'high',
        ((2, 0), (2, 0)), (0, 1, 2, 3)),
    'high-emulator': Request(
        1, {**_HIGH, 'hw:cpu_policy': 'dedicated',
            'hw:emulator_threads_policy': 'isolate'},
        None, 'high', ((2, 0),), (0,), True),
    'high-mixed': Request(
        3, {**_HIGH, **_MIXED}, None, 'high', ((1, 2),), (0,)),
    'high-hint-1': Request(1, {}, 'high', 'high', ((1, 0),), (0,)),
    'high-hint-2': Request(2, {}, 'high', 'high', ((2, 0),), (0, 1)),
    'low-1': Request(1, _LOW, None, 'low'),
    'low-3': Request(3, _LOW, None, 'low'),
    # Needs more shared CPUs than any host has.
    'low-7': Request(7, _LOW, None, 'low'),
    'low-cell': Request(
        3, {**_LOW, 'hw:numa_nodes': '1'}, None, 'low', ((0, 3),)),
    'low-cells': Request(
        4, {**_LOW, 'hw:numa_nodes': '2'}, None, 'low', ((0, 2), (0, 2))),
    'low-hint-1': Request(1, {}, 'low', 'low'),
    'low-hint-2': Request(2, {}, 'low', 'low'),
    'ordinary-1': Request(1),
    'ordinary-2': Request(2),
    # Needs more shared CPUs than one of the mix hosts has.
    'ordinary-5': Request(5),
    'ordinary-cell': Request(2, {'hw:numa_nodes': '1'}, cells=((0, 2),)),
    'ordinary-cells': Request(
        4, {'hw:numa_nodes': '2'}, cells=((0, 2), (0, 2))),
    'ordinary-memory': Request(1, memory_mb=5120),
    'pinned': Request(
        1, {'hw:cpu_policy': 'dedicated'}, cells=((1, 0),),
        dedicated_vcpus=(0,)),
    'mixed': Request(3, _MIXED, cells=((1, 2),), dedicated_vcpus=(0,)),
    'mixed-resources': Request(
        3, {'resources:VCPU': '1', 'resources:PCPU': '2'},
        cells=((2, 1),), dedicated_vcpus=(1, 2)),
}


def after_resize(old, new):
    """Return the name of the request in force after a resize.

    :param old: name of the request before the resize
    :param new: name of a request without a hint and with the new flavor
    :returns: name of a request, or None if nova-api must answer 400
    """
    hint = REQUESTS[old].hint
    if hint is None or REQUESTS[new].priority == hint:
        return new
    if REQUESTS[new].priority is not None:
        return None
    for name, request in REQUESTS.items():
        if request.hint == hint and request.flavor == REQUESTS[new].flavor:
            return name
    return None
