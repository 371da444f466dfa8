# SPDX-License-Identifier: Apache-2.0

"""Fixtures of the tests on real guests."""

import decimal
import os

# Nova's test code decides between threads and eventlet. Import it before any
# other module of Nova.
import nova_prio_scenario.cloud  # noqa: F401,I100

import libvirt
import pytest

from nova_prio.model import cpu_capacity
from tests.libvirt import boot_sector
from tests.libvirt import daemon
from tests.libvirt import guests


@pytest.fixture(scope='session')
def cpus():
    """The HostCPUs of this machine: one shared and one dedicated CPU."""
    shared, dedicated, *_ = sorted(os.sched_getaffinity(0))
    return cpu_capacity.HostCPUs(
        dedicated=frozenset([dedicated]), shared=frozenset([shared]),
        ratio=decimal.Decimal(4), mix=True)


@pytest.fixture(scope='session')
def host():
    """A ``daemon.Host`` with prepared partitions."""
    with daemon.Host() as found:
        found.prepare()
        yield found


@pytest.fixture(scope='session')
def busy_image(tmp_path_factory):
    """The image of a guest with all CPUs busy."""
    return boot_sector.build(
        boot_sector.BUSY, tmp_path_factory.mktemp('busy'))


@pytest.fixture(scope='session')
def idle_image(tmp_path_factory):
    """The image of a guest with all CPUs idle."""
    return boot_sector.build(
        boot_sector.IDLE, tmp_path_factory.mktemp('idle'))


@pytest.fixture(scope='module')
def start(host, cpus, busy_image, tmp_path_factory):
    """Function that starts a guest and returns its ``guests.Guest``.

    Its arguments are a name, a priority and the other arguments of
    ``guests.xml``. After the module, the guests are destroyed.
    """
    names = []

    def start_guest(name, priority=None, image=busy_image, **kwargs):
        file = tmp_path_factory.mktemp('guest') / 'domain.xml'
        file.write_text(guests.xml(name, image, cpus, priority, **kwargs))
        names.append(name)
        host.virsh('create', str(file))
        return guests.Guest(host, name)

    yield start_guest
    for name in names:
        host.virsh('destroy', name, check=False)


@pytest.fixture(scope='module')
def connection():
    """A connection of this process to libvirt's test driver."""
    libvirt.registerErrorHandler(lambda *args: None, None)
    found = libvirt.open('test:///default')
    yield found
    found.close()
