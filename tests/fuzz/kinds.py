# SPDX-License-Identifier: Apache-2.0

"""The kinds of instances that the fuzz creates, and what each draws.

The numbers are written out by hand from the rules of the package. Nothing
here is computed by the package.
"""

import typing


class Kind(typing.NamedTuple):
    """A flavor, a priority hint, and the CPUs that an instance draws.

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
        """Number of vCPUs that float."""
        return self.vcpus - len(self.dedicated_vcpus)

    @property
    def is_low(self):
        """Whether the priority is low."""
        return self.priority == 'low'

    @property
    def flavor(self):
        """The attributes that kinds with one flavor have in common."""
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

KINDS = {
    'high-1': Kind(1, _HIGH, None, 'high', ((1, 0),), (0,)),
    'high-3': Kind(3, _HIGH, None, 'high', ((3, 0),), (0, 1, 2)),
    'high-cells': Kind(
        4, {**_HIGH, 'hw:numa_nodes': '2'}, None, 'high',
        ((2, 0), (2, 0)), (0, 1, 2, 3)),
    'high-emulator': Kind(
        1, {**_HIGH, 'hw:cpu_policy': 'dedicated',
            'hw:emulator_threads_policy': 'isolate'},
        None, 'high', ((2, 0),), (0,), True),
    'high-mixed': Kind(
        3, {**_HIGH, **_MIXED}, None, 'high', ((1, 2),), (0,)),
    'high-hint-1': Kind(1, {}, 'high', 'high', ((1, 0),), (0,)),
    'high-hint-2': Kind(2, {}, 'high', 'high', ((2, 0),), (0, 1)),
    'low-1': Kind(1, _LOW, None, 'low'),
    'low-3': Kind(3, _LOW, None, 'low'),
    # More than any host has shared CPUs.
    'low-7': Kind(7, _LOW, None, 'low'),
    'low-cell': Kind(
        3, {**_LOW, 'hw:numa_nodes': '1'}, None, 'low', ((0, 3),)),
    'low-cells': Kind(
        4, {**_LOW, 'hw:numa_nodes': '2'}, None, 'low', ((0, 2), (0, 2))),
    'low-hint-1': Kind(1, {}, 'low', 'low'),
    'low-hint-2': Kind(2, {}, 'low', 'low'),
    'ordinary-1': Kind(1),
    'ordinary-2': Kind(2),
    # More than one of the mix hosts has shared CPUs.
    'ordinary-5': Kind(5),
    'ordinary-cell': Kind(2, {'hw:numa_nodes': '1'}, cells=((0, 2),)),
    'ordinary-cells': Kind(4, {'hw:numa_nodes': '2'}, cells=((0, 2), (0, 2))),
    'ordinary-memory': Kind(1, memory_mb=5120),
    'pinned': Kind(
        1, {'hw:cpu_policy': 'dedicated'}, cells=((1, 0),),
        dedicated_vcpus=(0,)),
    'mixed': Kind(3, _MIXED, cells=((1, 2),), dedicated_vcpus=(0,)),
    'mixed-resources': Kind(
        3, {'resources:VCPU': '1', 'resources:PCPU': '2'},
        cells=((2, 1),), dedicated_vcpus=(1, 2)),
}


def after_resize(old, new):
    """Return the kind of an instance that is resized, or None for 400.

    :param old: name of the kind before
    :param new: name of a kind without a hint, whose flavor is asked for
    """
    hint = KINDS[old].hint
    if hint is None or KINDS[new].priority == hint:
        return new
    if KINDS[new].priority is not None:
        return None
    for name, kind in KINDS.items():
        if kind.hint == hint and kind.flavor == KINDS[new].flavor:
            return name
    return None
