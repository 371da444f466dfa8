# SPDX-License-Identifier: Apache-2.0

"""The upgrade of the package, and of Nova, while users work.

The steps are those of doc/source/admin/upgrading.rst. Only the package is
taken back: Nova has no way back.
``NOVA_PRIO_MIXED_SECONDS`` sets how long services of both releases run on the
way to the new release, and ``NOVA_PRIO_SOAK_SEED`` the draws of the users.
"""

import json
import os

import pytest

from tests.live import operations
from tests.live import releases
from tests.live import untouched

DEFAULT_SECONDS = 600
USERS = 2


@pytest.fixture
def users(layout, load):
    """Users, whose servers are deleted at the end."""
    seed = os.environ.get('NOVA_PRIO_SOAK_SEED') or 'upgrade'
    found = operations.Users(layout, seed, number=USERS)
    yield found
    found.delete_all()


def test_servers_survive_upgrade_and_way_back(
        layout, users, hosts, record_property):
    old, new = releases.old_release(layout), releases.new_release(layout)
    change = releases.Change(layout, users, [old, new])
    computes = ['nova-compute-' + name for name in hosts]
    services = [*computes, releases.SCHEDULER, 'compute']
    # All services are new after the last of these steps.
    seconds = read_mixed_seconds() / (len(services) - 1)
    with untouched.UntouchedServers(layout, 'untouched') as servers, (
            releases.Travelers(layout, hosts[0])) as travelers:
        before = servers.read_states()
        new.check_service('readme-api')
        for service in services:
            if service in computes:
                new.check_service(
                    'readme-compute', service.removeprefix('nova-compute-'))
            change.restart(
                service, new, 0 if service == services[-1] else seconds)
            if service == computes[0]:
                travelers.travel()
        new.check_service('readme-api')
        assert before == servers.read_states()
        for service in services:
            change.restart(service, old, 0)
            if service == computes[0]:
                travelers.travel()
        assert before == servers.read_states()
    finish(users, change, record_property)


def test_servers_survive_upgrade_of_nova(
        layout, users, hosts, record_property):
    """The order of the services is that of Nova's upgrade guide.

    All services except the computes change at once: nova-api of an older
    release cannot read what a newer conductor has written.
    """
    old, new = releases.old_release(layout), releases.new_release(layout)
    change = releases.Change(layout, users, [old, new])
    computes = ['nova-compute-' + name for name in hosts]
    seconds = read_mixed_seconds() / len(computes)
    with untouched.UntouchedServers(layout, 'untouched') as servers, (
            releases.Travelers(layout, hosts[0])) as travelers:
        before = servers.read_states()
        new.check_service('readme-api')
        new.cloud.upgrade_databases()
        # The conductor does not load this package: it has no start line.
        new.cloud.restart('nova-conductor')
        new.restart('compute')
        change.restart(releases.SCHEDULER, new, seconds)
        for service in computes:
            new.check_service(
                'readme-compute', service.removeprefix('nova-compute-'))
            change.restart(
                service, new, 0 if service == computes[-1] else seconds)
            if service in (computes[0], computes[-1]):
                travelers.travel()
        new.check_service('readme-api')
        assert before == servers.read_states()
    finish(users, change, record_property)


def read_mixed_seconds():
    """Return how long services of both releases run, an int."""
    return int(os.environ.get('NOVA_PRIO_MIXED_SECONDS') or DEFAULT_SECONDS)


def finish(users, change, record_property):
    """Record what the users did, and check it.

    Many operations are refused while nova-api restarts: they do not count.

    :param users: operations.Users
    :param change: releases.Change
    """
    record_property('operations', len(users.steps))
    record_property('stuck_servers', json.dumps(change.stuck_servers))
    record_property('orphan_guests', json.dumps(change.orphan_guests))
    assert [] == users.lost
    assert [] == users.server_errors
