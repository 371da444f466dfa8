# SPDX-License-Identifier: Apache-2.0

"""The parts of a bundle about this host: software, cgroups and guests."""

from __future__ import annotations

import contextlib
from importlib import metadata
import io
import platform
import typing

from nova.virt import hardware

from nova_prio.admin.audit import guests
from nova_prio.admin import host_inventory
from nova_prio.admin.support import source
from nova_prio.compat import contract
from nova_prio_host import command as host_command

#: Beside the libraries of OpenStack whose names begin with "oslo".
_LIBRARIES = ('keystoneauth1', 'libvirt-python', 'nova', 'nova-prio',
              'openstack-placement', 'os-vif', 'sqlalchemy')


def list_versions(sources: source.Source | None) -> dict[str, typing.Any]:
    """Return the versions of the software on this host."""
    packages = {each.name.lower(): each.version
                for each in metadata.distributions()}
    try:
        distribution = platform.freedesktop_os_release()['PRETTY_NAME']
    except (OSError, KeyError) as error:
        distribution = 'unknown (%s)' % error
    return {
        'nova_prio': contract.get_own_release(),
        'nova': contract.get_nova_release(),
        'python': platform.python_version(),
        'kernel': platform.release(),
        'architecture': platform.machine(),
        'distribution': distribution,
        **(_read_hypervisor(sources) if sources else {}),
        'packages': ['%s %s' % item for item in sorted(packages.items())
                     if item[0].startswith('oslo') or item[0] in _LIBRARIES]}


def _read_hypervisor(sources: source.Source) -> dict[str, str]:
    """Return the versions of libvirt and QEMU, or why they are unknown."""
    try:
        with guests.connect(sources.conf) as connection:
            versions = (connection.getLibVersion(), connection.getVersion())
    except guests.GuestsUnreadable as error:
        unknown = 'unknown: %s' % host_inventory.format_first_line(error)
        return {'libvirt': unknown, 'qemu': unknown}
    # The number is 1000000 * major + 1000 * minor + release.
    return {name: '%d.%d.%d' % (
        version // 1000000, version // 1000 % 1000, version % 1000)
            for name, version in zip(('libvirt', 'qemu'), versions)}


def check_contract(sources: source.Source | None) -> dict[str, typing.Any]:
    """Return how Nova differs from the interfaces that services rely on."""
    return {
        'tested_releases': list(contract.TESTED_RELEASES),
        'mismatches': {
            service: contract.find_mismatches(service) for service in (
                contract.API, contract.SCHEDULER, contract.COMPUTE,
                contract.COMMANDS)}}


def read_partitions(sources: source.Source) -> dict[str, list[str]]:
    """Return the output of ``nova-prio-host check`` and ``... metrics``."""
    sources.require_compute()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        _, errors = host_command.run(['metrics'])
    return {'problems': host_command.find_problems(),
            'metrics': output.getvalue().splitlines() + errors}


def list_guests(sources: source.Source) -> list[dict[str, typing.Any]]:
    """Return the guests that run on this host, as the audit sees them."""
    sources.require_compute()
    _, running = guests.read_guests(sources.conf)
    return [{'uuid': guest.uuid, 'priority': guest.priority,
             'partition': guest.partition, 'has_cells': guest.has_cells,
             'vcpus': list(map(_format_cpus, guest.vcpus)),
             'threads': list(map(_format_cpus, guest.threads))}
            for guest in running]


def _format_cpus(cpus: frozenset[int] | None) -> str:
    """Return CPU numbers as a text."""
    return 'all' if cpus is None else hardware.format_cpu_spec(cpus)
