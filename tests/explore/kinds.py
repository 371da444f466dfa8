# SPDX-License-Identifier: Apache-2.0

"""The kinds of instances that operations are explored with."""

import typing

#: The CPUs of each host: two NUMA cells of 12 CPUs.
HOST = dict(cpus=24, cells=2, dedicated='0-7,12-19', shared='8-11,20-23',
            ratio=2.0)
DEDICATED = frozenset((*range(8), *range(12, 20)))

_HIGH = {'hw:cpu_priority': 'high'}
_LOW = {'hw:cpu_priority': 'low'}
_MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'}
_PINNED = {'hw:cpu_policy': 'dedicated'}
_EMULATOR = {**_PINNED, 'hw:emulator_threads_policy': 'isolate'}


class Flavor(typing.NamedTuple):
    """The vCPUs and the extra specs of a flavor."""

    vcpus: int
    extra_specs: dict = {}


class Kind(typing.NamedTuple):
    """A flavor, that of a resize, and that of a rival.

    The rival fits beside the instance if it has dedicated CPUs, and gets CPUs
    of the instance if they count as free. A floating rival does not fit: with
    it, the host would be oversold.
    """

    flavor: Flavor
    resized: Flavor
    rival: Flavor


#: The neighbours on the source and on the destination: the hosts have other
#: numbers for the dedicated CPUs of the instance, and most floating vCPUs that
#: ordinary instances may have are sold.
NEIGHBOURS = ((Flavor(2, _HIGH), Flavor(1, _HIGH)), Flavor(6))
_TWO = Flavor(2, _HIGH)
KINDS = {
    'high': Kind(Flavor(4, _HIGH), Flavor(5, _LOW), _TWO),
    'low': Kind(Flavor(5, _LOW), Flavor(4, _HIGH), Flavor(23, _LOW)),
    'mixed': Kind(Flavor(4, {**_HIGH, **_MIXED}), Flavor(3, _HIGH), _TWO),
    'pinned': Kind(Flavor(4, _PINNED), Flavor(3, _HIGH), _TWO),
    'ordinary': Kind(Flavor(5), Flavor(4, _HIGH), Flavor(7)),
    'high-cells': Kind(Flavor(4, {**_HIGH, 'hw:numa_nodes': '2'}),
                       Flavor(3, {**_HIGH, 'hw:numa_nodes': '1'}), _TWO),
    'low-cells': Kind(Flavor(4, {**_LOW, 'hw:numa_nodes': '2'}),
                      Flavor(5, _LOW), Flavor(23, _LOW)),
    'emulator': Kind(Flavor(3, {**_HIGH, **_EMULATOR}), Flavor(4, _HIGH),
                     _TWO),
}
#: Kinds that can move to another cell of Nova.
_BETWEEN_CELLS = {
    'low': Kind(Flavor(5, _LOW), Flavor(4), Flavor(23, _LOW)),
    'ordinary': Kind(Flavor(5), Flavor(4, _LOW), Flavor(7))}
#: Suffix of a kind on hosts in two cells of Nova.
BETWEEN_CELLS = '-two-cells'
#: Suffix of a kind on hosts without mix, where low-priority instances float
#: on the shared CPUs alone.
WITHOUT_MIX = '-nomix'
_ON_SHARED_CPUS = Flavor(7, _LOW)


def list_names():
    """Return the names of all kinds, a list."""
    return [*KINDS, *(name + WITHOUT_MIX for name in KINDS),
            *(name + BETWEEN_CELLS for name in _BETWEEN_CELLS)]


def get_suffix(name):
    """Return WITHOUT_MIX, BETWEEN_CELLS or '', the cloud of a kind."""
    for suffix in WITHOUT_MIX, BETWEEN_CELLS:
        if name.endswith(suffix):
            return suffix
    return ''


def get(name):
    """Return the Kind of a name."""
    suffix = get_suffix(name)
    if suffix == BETWEEN_CELLS:
        return _BETWEEN_CELLS[name.removesuffix(suffix)]
    kind = KINDS[name.removesuffix(suffix)]
    if suffix == WITHOUT_MIX and kind.rival.vcpus > _ON_SHARED_CPUS.vcpus:
        return kind._replace(rival=_ON_SHARED_CPUS)
    return kind
