# SPDX-License-Identifier: Apache-2.0

"""Faults of services and hosts while users operate on servers."""

import json

import pytest

from tests.live import bystanders
from tests.live import catalog
from tests.live import cloud
from tests.live import faults
from tests.live import load
from tests.live import logs
from tests.live import look
from tests.live import operations
from tests.live import waiting
from tests.live import watch

#: Number of operations before a fault and after it.
BEFORE, AFTER = 6, 8
#: Prefix of sentences about allocations.
ALLOCATION = 'On '


@pytest.fixture(scope='module')
def untouched(layout, load):
    """Servers of each flavor that nobody operates on."""
    with bystanders.Bystanders(layout, 'untouched') as found:
        yield found


@pytest.fixture(params=faults.FAULTS, ids=lambda fault: fault.__name__)
def fault(request):
    """A function that causes a fault and returns after its end."""
    return request.param


@pytest.fixture
def users(layout, fault):
    """Users whose servers are deleted at the end."""
    found = operations.Users(layout, fault.__name__)
    yield found
    found.leave()


def test_all_is_right_after(
        fault, users, layout, untouched, record_property):
    """All invariants hold, except for three limitations of stock Nova.

    * Nova may never end an operation. The test deletes such servers, at most
      one of each user.
    * Nova may leave orphan guests after a failed move or create. The test
      removes them; if they run, nova-compute must have logged them before.
    * The allocations of a resize may be wrong until the user confirms it.

    The test records these, and the violations that nova-compute or the audit
    healed and logged. Only the audit ends the migrations that Nova left
    unfinished. Servers that nobody operates on must not change, and new
    servers must become ACTIVE.
    """
    before = untouched.look()
    written = logs.Written(layout)
    with users:
        users.wait_for_steps(BEFORE)
        fault(cloud.Cloud(layout))
        users.wait_for_steps(AFTER)
    given_up = users.give_up()
    removed = faults.left(
        layout, users.made_in_vain | logs.built_anew(written))
    for guest in removed:
        if guest.is_running:
            waiting.soon(_is_named, guest, written, every=5,
                         within=watch.SETTLE_SECONDS)
        faults.remove(layout, guest)
    audit = cloud.Cloud(layout).audit
    first = watch.settle(layout, audit=audit)
    until_confirmed = first.violations
    confirmed = users.confirm()
    not_of_confirmed = _not_of(layout, confirmed, until_confirmed)
    found = watch.settle(layout, audit=audit)
    for name, value in (('given_up', given_up),
                        ('removed', removed),
                        ('mended', {**first.mended, **found.mended}),
                        ('until_confirmed', until_confirmed)):
        record_property(name, json.dumps(value))
        print('%s: %s' % (name, value))
    users.leave()
    left = watch.settle(layout)
    assert [] == not_of_confirmed
    assert len(removed) <= operations.USERS
    owners = [name.partition('-')[0] for name in given_up]
    assert sorted(set(owners)) == sorted(owners)
    assert ([], [], [], []) == (
        users.lost, found.violations, users.left, left.violations)
    assert len(load.FLAVORS) == len(before)
    assert before == untouched.look()
    with bystanders.Bystanders(layout, 'after'):
        pass


def _not_of(layout, servers, sentences):
    """Return the sentences that are not about allocations of these servers.

    :param servers: UUIDs
    """
    migrations = look.at_all(layout, catalog.connect(layout)).migrations
    holders = [*servers, *(migration.uuid for migration in migrations
                           if migration.server in servers)]
    return [sentence for sentence in sentences
            if not (sentence.startswith(ALLOCATION)
                    and any(uuid in sentence for uuid in holders))]


def _is_named(guest, written):
    """Return whether nova-compute logged a guest as an orphan.

    :param guest: faults.Left
    :param written: logs.Written
    """
    return any(
        guest.uuid in line and 'but its instance is not on this host' in line
        for line in written.lines('nova-compute-' + guest.host))
