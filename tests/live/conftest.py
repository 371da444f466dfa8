# SPDX-License-Identifier: Apache-2.0

"""Fixtures of the tests on a live cloud."""

import contextlib

import pytest

from tests.libvirt import boot_sector
from tests.live import catalog
from tests.live import client
from tests.live import layout as layouts
from tests.live import load as loads
from tests.live import logs
from tests.live import watch

#: Flavor -> its property, if any. Each has 4 vCPUs.
FLAVORS = {'high': ['--property', 'hw:cpu_priority=high'],
           'low': ['--property', 'hw:cpu_priority=low'],
           'ordinary': [], 'plain': []}


@pytest.fixture(scope='session')
def layout():
    """The layout of a cloud that is up."""
    return layouts.Layout.of_environment()


@pytest.fixture(scope='session')
def openstack(layout, tmp_path_factory):
    """The client of the administrator, with an image named guest."""
    found = client.Client(layout)
    image = boot_sector.build(
        boot_sector.IDLE, tmp_path_factory.mktemp('image'))
    found.run('image', 'create', '--file', image, '--disk-format', 'raw',
              '--container-format', 'bare', '--public', 'guest')
    yield found
    found.run('image', 'delete', 'guest')


@pytest.fixture(scope='session')
def admin(layout):
    """The connection of the administrator."""
    return catalog.connect(layout)


@pytest.fixture(scope='session')
def image(openstack, admin):
    """The public image."""
    return admin.image.find_image('guest')


@pytest.fixture(scope='session')
def flavors(openstack):
    """The names of the flavors: one for each priority, and two without."""
    with contextlib.ExitStack() as stack:
        for name, words in FLAVORS.items():
            openstack.run('flavor', 'create', '--vcpus', 4, '--ram', 64,
                          '--disk', 1, *words, name)
            stack.callback(openstack.run, 'flavor', 'delete', name)
        yield list(FLAVORS)


@pytest.fixture(scope='session')
def hosts(openstack, layout):
    """The names of the hosts, which are in an aggregate for priorities."""
    with contextlib.ExitStack() as stack:
        openstack.run('aggregate', 'create', '--property',
                      'priority_mix=true', 'priority')
        stack.callback(openstack.run, 'aggregate', 'delete', 'priority')
        for name in layout.hosts:
            openstack.run('aggregate', 'add', 'host', 'priority', name)
            stack.callback(openstack.run, 'aggregate', 'remove', 'host',
                           'priority', name)
        yield layout.hosts


@pytest.fixture
def boot(openstack, flavors, hosts):
    """Function that creates a server, as ``client.Client.boot``.

    The servers are deleted at the end.
    """
    with contextlib.ExitStack() as stack:
        def create(name, *words):
            stack.callback(openstack.run, 'server', 'delete', '--wait', name)
            return openstack.boot(name, *words)

        yield create


@pytest.fixture(scope='module')
def load(layout, openstack, hosts):
    """A Load on all hosts."""
    found = loads.Load(layout)
    found.prepare()
    yield found
    found.clean()


@pytest.fixture(scope='module', autouse=True)
def watched(layout):
    """Check the hosts while the tests of a module run."""
    with watch.watch(layout):
        yield


@pytest.fixture(scope='module', autouse=True)
def settled(layout):
    """Assert after each module that all invariants hold in the settled cloud.

    The logs must not contain a failure of this package.
    """
    written = logs.NewLines(layout)
    yield
    assert [] == watch.settle(layout).violations
    assert [] == written.failures()
