# SPDX-License-Identifier: Apache-2.0

"""Faults of services and hosts while users operate on servers."""

import json

import pytest

from tests.live import catalog
from tests.live import cloud
from tests.live import faults
from tests.live import load
from tests.live import logs
from tests.live import operations
from tests.live import snapshots
from tests.live import untouched
from tests.live import watch

#: Number of operations before a fault and after it.
BEFORE, AFTER = 6, 8
#: Prefix of violations that concern allocations.
ALLOCATION = 'On '


@pytest.fixture(scope='module')
def untouched_servers(layout, load):
    """Servers that no user operates on."""
    with untouched.UntouchedServers(layout, 'untouched') as servers:
        yield servers


@pytest.fixture(params=faults.FAULTS, ids=lambda fault: fault.__name__)
def fault(request):
    """Function that causes a fault and returns after the end of the fault."""
    return request.param


@pytest.fixture
def users(layout, fault):
    """Users. Their servers are deleted at the end."""
    found = operations.Users(layout, fault.__name__)
    yield found
    found.delete_all()


def test_invariants_hold_after_fault(
        fault, users, layout, untouched_servers, record_property):
    """All invariants hold, except for three limitations of stock Nova.

    * Nova may never end an operation. The test deletes such servers, at most
      one of each user.
    * Nova may leave orphan guests after a failed move or create. The test
      removes them. If such a guest runs, nova-compute must log it first.
    * The allocations of a resize may be wrong until the user confirms it.

    The test records these cases, and the violations that nova-compute or the
    audit corrected and logged. Only the audit ends the migrations that Nova
    left unfinished. Untouched servers must not change, and new servers must
    become ACTIVE.
    """
    before = untouched_servers.read_states()
    written = logs.NewLines(layout)
    with users:
        users.wait_for_steps(BEFORE)
        fault(cloud.Cloud(layout))
        users.wait_for_steps(AFTER)
    stuck_servers = users.delete_stuck()
    orphan_guests = faults.remove_orphan_guests(
        layout, written, users.failed_or_stuck)
    audit = cloud.Cloud(layout).audit
    first = watch.settle(layout, audit=audit)
    until_confirmed = first.violations
    confirmed = users.confirm()
    unexpected = _exclude_allocations(layout, confirmed, until_confirmed)
    found = watch.settle(layout, audit=audit)
    for name, value in (('stuck_servers', stuck_servers),
                        ('orphan_guests', orphan_guests),
                        ('healed', {**first.healed, **found.healed}),
                        ('until_confirmed', until_confirmed)):
        record_property(name, json.dumps(value))
        print('%s: %s' % (name, value))
    users.delete_all()
    last = watch.settle(layout)
    assert [] == unexpected
    assert len(orphan_guests) <= operations.USERS
    owners = [name.partition('-')[0] for name in stuck_servers]
    assert sorted(set(owners)) == sorted(owners)
    assert ([], [], [], []) == (
        users.lost, found.violations, users.server_names, last.violations)
    assert len(load.FLAVORS) == len(before)
    assert before == untouched_servers.read_states()
    with untouched.UntouchedServers(layout, 'after'):
        pass


def _exclude_allocations(layout, servers, sentences):
    """Return all sentences except those on allocations of some servers.

    :param servers: UUIDs
    """
    migrations = snapshots.read_all(layout, catalog.connect(layout)).migrations
    consumers = [*servers, *(migration.uuid for migration in migrations
                             if migration.server in servers)]
    return [sentence for sentence in sentences
            if not (sentence.startswith(ALLOCATION)
                    and any(uuid in sentence for uuid in consumers))]
