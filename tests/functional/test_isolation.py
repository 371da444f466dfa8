# SPDX-License-Identifier: Apache-2.0


"""An error in this package fails no ordinary request and no recount.

The functions of this package that Nova's calls reach are found by reading the
code of the overrides. One after the other is made to fail in a running cloud.
"""

import contextlib
import functools
import inspect
import traceback
import typing
from unittest import mock

from nova import context
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client

from nova_prio.api import fold
from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.compute import claims
from nova_prio.compute import containment
from nova_prio.compute import lease_ends
from nova_prio.compute import live_migration_watcher
from nova_prio.compute import priority_host
from nova_prio.compute import resource_tracker
from nova_prio.compute import start_gate
from nova_prio.model import leases
from nova_prio.scheduler import failures
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import request_filter
from nova_prio.scheduler.weights import group_weighers
from nova_prio.scheduler.weights import low_supply_weigher
from nova_prio.scheduler.weights import multipliers
from nova_prio.scheduler.weights import priority_weighter
from nova_prio.virt.libvirt import driver
from tests.functional import base

#: The classes that replace classes of Nova.
ENTRIES = (
    resource_tracker.PriorityResourceTracker, claims.PriorityClaim,
    claims.PriorityMoveClaim, driver.PriorityLibvirtDriver,
    priority_filter.PriorityFilter, priority_weighter.PriorityWeighter,
    low_supply_weigher.LowSupplyWeigher,
    group_weighers.SoftAffinityWeigher,
    group_weighers.SoftAntiAffinityWeigher)

#: A service must stop if these fail: without them the package is not loaded.
LOADING = (contract, hooks)

#: The code that contains and logs the errors of all other code.
CONTAINING = (containment.Steps, failures)

#: Methods that only change a number. Without the second one of a pair of
#: calls, the lease would stay until nova-compute starts again.
COUNTING = {(leases.Leases, name) for name in (
    'begin_call', 'end_call', 'begin_start', 'end_start')}

#: Parts of overrides that call other code of ours in a contained step only:
#: the test lets only the functions that they call fail.
PARTS = {
    (claims._PriorityTest, '_get_flavor'),
    (claims._PriorityTest, '_needs_our_test'),
    (driver.PriorityLibvirtDriver, 'probe_before_move'),
    (live_migration_watcher.LiveMigrationWatcher, 'release_ended'),
    (priority_filter.PriorityFilter, '_passes'),
    (priority_filter.PriorityFilter, '_passes_as_in_nova'),
    (priority_filter.PriorityFilter, '_read_request'),
    (priority_filter.PriorityFilter, 'find_refusal'),
    (multipliers.AggregateMultiplier, '_log_and_get_zero'),
    (priority_host.PriorityHost, 'claiming'),
    (lease_ends.LeaseEnds, 'giving_back'),
    (resource_tracker.PriorityResourceTracker, '_refresh_report'),
    (start_gate.StartGate, '_check_operation'),
    (start_gate.StartGate, 'check'), (start_gate.StartGate, 'starting')}


class Injected(Exception):
    """An error that no code handles."""


def is_ours(found):
    return is_ours_by_name(getattr(found, '__module__', ''))


def is_ours_by_name(module):
    return module.startswith('nova_prio.')


def names_in(function):
    """Return the names that the code of a function uses, a set."""
    codes, found = [inspect.unwrap(function).__code__], set()
    while codes:
        code = codes.pop()
        found |= set(code.co_names)
        codes += filter(inspect.iscode, code.co_consts)
    return found


def methods_of(cls):
    """Yield (name, function or property) of a class itself."""
    for name, found in vars(cls).items():
        function = getattr(found, '__func__', found)
        function = getattr(found, 'fget', function)
        if (inspect.isfunction(function) and is_ours(function) and
                not name.startswith('__')):
            yield name, found


def called_by(function):
    """Yield (owner, name) of the nova_prio functions that a function calls."""
    names = names_in(function)
    scope = inspect.unwrap(function).__globals__
    for name in names & set(scope):
        found = scope[name]
        if inspect.isfunction(found) and is_ours(found):
            yield inspect.getmodule(function), name
        if not (inspect.ismodule(found) and
                is_ours_by_name(found.__name__)):
            continue
        for inner, member in vars(found).items():
            if not is_ours(member) or member.__module__ != found.__name__:
                continue
            if inspect.isfunction(member) and inner in names:
                yield found, inner
    for each in collaborators():
        yield from ((each, method) for method, _ in methods_of(each)
                    if method in names)


def modules_in(modules):
    """Return the modules of nova_prio that some modules import, a set."""
    return {inner for module in modules for inner in vars(module).values()
            if inspect.ismodule(inner) and is_ours_by_name(inner.__name__)}


@functools.cache
def collaborators():
    """Return the classes that the modules of the entries know, a list."""
    entries = [each for entry in ENTRIES for each in entry.__mro__
               if is_ours(each)]
    known = modules_in(map(inspect.getmodule, entries))
    known |= modules_in(known)
    return entries + list({
        member for module in known for member in vars(module).values()
        if inspect.isclass(member) and member.__module__ == module.__name__
        # A protocol has no code.
        and typing.Protocol not in member.__bases__})


def targets():
    """Return (owner, name) of all functions that overrides call, a list."""
    overrides, helpers = set(), {request_filter.restrict_request}
    for cls in ENTRIES:
        ours = [each for each in cls.__mro__ if is_ours(each)]
        stock = next(each for each in cls.__mro__ if not is_ours(each))
        for each in ours:
            for name, _ in methods_of(each):
                if hasattr(stock, name):
                    overrides.add((each, name))
                    helpers.add(getattr(each, name))
    found, done = set(), set()
    while helpers:
        function = helpers.pop()
        done.add(function)
        for owner, name in called_by(function):
            if (owner in LOADING or owner in CONTAINING or
                    (owner, name) in overrides | COUNTING):
                continue
            if (owner, name) not in PARTS:
                found.add((owner, name))
            # A method that an override of the same class calls counts too.
            inner = inspect.getattr_static(owner, name)
            inner = getattr(inner, 'fget', inner)
            is_of_entry = inspect.isclass(owner) and any(
                issubclass(entry, owner) for entry in ENTRIES)
            if (inspect.isfunction(inner) and inner not in done and
                    (is_of_entry or (owner, name) in PARTS)):
                helpers.add(inner)
    return sorted(found, key=lambda each: (each[0].__name__, each[1]))


def name_of(target):
    owner, name = target
    return '%s.%s' % (owner.__name__, name)


class Isolation(base.FunctionalTest):

    #: Functions that must be among those that are called and made to fail.
    REACHED = {
        'AllocationHealing.run', 'PriorityLibvirtDriver.manages',
        'PriorityLibvirtDriver._report_priority',
        'HostGuests.read_guests', 'PriorityHost.begin_recount',
        'PriorityHost.count', 'PriorityHost.end_recount',
        'PriorityHost.give_back',
        'OversoldWarnings.warn',
        '_PriorityTest._test_capacity',
        'nova_prio.compute.resource_tracker._describe',
        'nova_prio.compat.workarounds.find_returning',
        'nova_prio.scheduler.request_filter._restrict',
        'nova_prio.scheduler.request_view.read_request',
        'nova_prio.virt.demand.get_lease_set'}

    def setUp(self):
        super().setUp()
        # A build has ended when the API responds, so nothing waits for it.
        self.useFixture(nova_fixtures.SpawnIsSynchronousFixture())

    def start(self, mix):
        """Start the host, with instances that its steps look at."""
        self.start_seed_host('host1', mix=mix)
        self.boot(self.plain)
        self.boot(self.flavor(1, **{'hw:cpu_policy': 'dedicated'}))
        self.boot(self.flavor(1, **{'hw:cpu_priority': 'high'}))
        if mix:
            self.boot(self.low)

    def recount(self, *startups):
        """Restart the driver and recount; raise errors that Nova would log.

        :param startups: whether each recount is one of a start
        """
        with self.host_conf('host1'):
            compute = self.computes['host1'].manager
            compute.driver.init_host('host1')
            compute.driver.priority_host.gate.is_settled = False
            for startup in startups:
                compute.rt.update_available_resource(
                    context.get_admin_context(), 'host1', startup=startup)

    def in_use(self):
        """Return the usage that stock Nova counts on the host."""
        with self.record('host1') as node:
            return node.vcpus_used, node.memory_mb_used, node.numa_topology

    def live_ordinarily(self):
        """Create, recount and delete an ordinary instance."""
        before = self.in_use()
        server = self.boot(self.plain)
        self.recount(True, False)
        vcpus, memory_mb, topology = self.in_use()
        self.assertEqual(before, (vcpus - 4, memory_mb - 256, topology))
        self._delete_server(server)
        self.assertEqual(before, self.in_use())

    def failing(self, target, reached):
        """Return a context where a function fails, but in nova-api."""
        owner, name = target
        static = inspect.getattr_static(owner, name)
        stock = getattr(owner, name)

        def fail(*args, **kwargs):
            if any(frame.f_code.co_filename.rpartition('/nova_prio/')[2]
                   .startswith('api/')
                   for frame, _ in traceback.walk_stack(None)):
                return stock(*args, **kwargs)
            reached.add(name_of(target))
            raise Injected('it was made to fail')

        return mock.patch.object(
            owner, name, property(fail) if isinstance(static, property)
            else staticmethod(fail) if inspect.isclass(owner) else fail)

    def called(self):
        """Return the targets that operations on ordinary instances call."""
        calls = set()

        def watch(target):
            owner, name = target
            static = inspect.getattr_static(owner, name)
            stock = getattr(static, '__func__', static)
            stock = getattr(stock, 'fget', stock)

            @functools.wraps(stock)
            def note(*args, **kwargs):
                calls.add(target)
                return stock(*args, **kwargs)

            kind = type(static)
            return mock.patch.object(owner, name, kind(note) if kind in (
                property, classmethod, staticmethod) else note)

        with contextlib.ExitStack() as stack:
            for target in targets():
                stack.enter_context(watch(target))
            self.live_ordinarily()
        return [target for target in targets() if target in calls]

    def check(self, half):
        """Let each function fail in turn, and recover afterwards.

        :param half: 0 or 1; each half has every second function
        """
        report = self.report('host1')
        found = self.called()
        self.assertEqual(set(), self.REACHED.difference(map(name_of, found)))
        expected, reached, wrong = set(), set(), []
        for target in found[half::2]:
            expected.add(name_of(target))
            try:
                with self.failing(target, reached):
                    self.live_ordinarily()
                # Two recounts end a lease that is left.
                self.recount(True, False)
                self.assertEqual(report, self.report('host1'))
            except (Exception, SystemExit) as error:
                wrong.append((name_of(target), repr(error)[:300]))
        self.assertEqual([], wrong)
        self.assertEqual(set(), self.REACHED & expected - reached)

    def test_first_half_without_mix(self):
        self.start(mix=False)
        self.check(0)

    def test_second_half_without_mix(self):
        self.start(mix=False)
        self.check(1)

    def test_first_half_on_mix_host(self):
        self.start(mix=True)
        self.check(0)

    def test_second_half_on_mix_host(self):
        self.start(mix=True)
        self.check(1)


class Fold(base.FunctionalTest):
    """All functions of ``fold`` fail, one after the other."""

    FUNCTIONS = ('fold_for_create', 'complete_for_image', 'check_image',
                 'fold_for_resize', 'decide_force')

    def failing(self, name):
        return mock.patch.object(fold, name, side_effect=Injected())

    def test_ordinary_requests_are_answered_as_in_stock(self):
        self.start_seed_host('mix1')
        self.start_seed_host('mix2')
        self.let_guests_migrate()
        smaller = self.flavor(3)
        for name in self.FUNCTIONS:
            with self.failing(name):
                server = self.boot(self.plain)
                self._resize_server(server, smaller)
                self._revert_resize(server)
                self._rebuild_server(server, server['image']['id'])
                self._live_migrate(server)
                self._delete_server(server)

    def test_priority_requests_are_refused(self):
        self.start_seed_host()
        server = self.boot(self.plain)
        for name, request in (
                ('fold_for_create', lambda: self.boot(self.high)),
                ('fold_for_create',
                 lambda: self.boot_with_hint(self.plain, 'low')),
                ('check_image', lambda: self.boot(self.low)),
                ('fold_for_resize', lambda: self.api.post_server_action(
                    server['id'], {'resize': {'flavorRef': self.low}}))):
            with self.failing(name):
                error = self.assertRaises(
                    client.OpenStackApiException, request)
            self.assertEqual(500, error.response.status_code, name)
