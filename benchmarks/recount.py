# SPDX-License-Identifier: Apache-2.0

"""Compare nova-compute with this package and without, by number of guests.

Nova, its databases and Placement are real, and run in one process with Nova's
fake libvirt. The time of a recount is that of the periodic task of one host.
The times of a create, a delete and a live migration are those of all services.
"""

import collections
import contextlib
import time

from nova.compute import resource_tracker
import nova.conf
from nova import context
from nova.db.main import api as main
from nova.tests.fixtures import libvirt as fakelibvirt
from oslo_concurrency import lockutils

from benchmarks import clock
from benchmarks import queries
from nova_prio_scenario import cloud
from nova_prio_scenario import migrations
from nova_prio_scenario import waiting

GUESTS = (10, 50, 200)
STOCK, OURS = 'stock', 'ours'
#: Side -> flavors of its guests, extra specs.
_FLAVORS = {
    STOCK: ({'hw:cpu_policy': 'dedicated'}, {}),
    OURS: ({'hw:cpu_priority': 'high'}, {'hw:cpu_priority': 'low'})}
#: Recounts for each repeat: their times differ more than those of operations.
_RECOUNTS = 3
#: Seconds between two looks at a migration.
_INTERVAL_SECONDS = 0.5
#: Most servers that are created at the same time.
_AT_ONCE = 20
#: libvirt-python answers these without a call of libvirt.
_LOCAL = {'ID', 'UUID', 'UUIDString', 'name', 'connect'}


def measure(repeats, numbers=GUESTS):
    """Return the figures of each number of guests.

    :param repeats: number of measurements of each side; of recounts, three
        times as many
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    recounts = _RECOUNTS * repeats
    found = {'recount.repeats': recounts}
    with cloud.Cloud.running() as running:
        running.let_guests_migrate()
        sides = {name: Side(running, name) for name in (STOCK, OURS)}
        with _counting_libvirt() as calls, _timing_lock() as held:
            for number in sorted(numbers):
                for side in sides.values():
                    side.fill(number)
                found.update(_measure_recount(
                    sides, number, recounts, calls, held))
                for operation in 'create', 'delete', 'live_migration':
                    found.update(_measure_operation(
                        sides, number, repeats, operation, held))
    return found


class Side:
    """Two hosts, the guests of the first, and one guest more.

    :param running: :class:`nova_prio_scenario.cloud.Cloud`
    :param name: STOCK or OURS
    """

    def __init__(self, running, name):
        """Start the hosts."""
        self._running = running
        self.hosts = name, name + '2'
        driver, aggregate = cloud.PRIORITY_DRIVER, {'priority_mix': 'true'}
        if name == STOCK:
            driver, aggregate = cloud.STOCK_DRIVER, None
        for host in self.hosts:
            running.start_host(
                host, cpus=160, cells=2, dedicated='0-59,80-139',
                shared='60-79,140-159', ratio=8.0, mix=name == OURS,
                memory_mb=65536, driver=driver, aggregate=aggregate)
        self._flavors = [
            running._create_flavor(vcpu=1, memory_mb=128, disk=0, ephemeral=0,
                                   extra_spec=extra_specs)
            for extra_specs in _FLAVORS[name]]
        self._guests = 0
        self._server = None
        mapping = running.host_mappings[name]
        with context.target_cell(context.get_admin_context(),
                                 mapping.cell_mapping) as cctxt:
            self.engine = main.get_engine(context=cctxt)

    def fill(self, number):
        """Create guests until there are so many, half of them pinned."""
        while self._guests < number:
            more = min(_AT_ONCE, number - self._guests)
            servers = []
            for place in range(more):
                servers.append(self._post(place % 2))
            for server in servers:
                self._running._wait_for_state_change(server, 'ACTIVE')
            self._guests += more
        self.recount()

    def _post(self, flavor):
        body = self._running._build_server(
            flavor_id=self._flavors[flavor], networks='none')
        body['host'] = self.hosts[0]
        return self._running.api.post_server({'server': body})

    def recount(self):
        """Run the periodic task of the host."""
        self._running.update_host(self.hosts[0])

    def create(self):
        """Create a pinned guest."""
        self._server = self._running._wait_for_state_change(
            self._post(0), 'ACTIVE')

    def delete(self):
        """Delete the guest of ``create``."""
        self._running._delete_server(self._server)

    def live_migration(self):
        """Migrate the guest of ``create`` to the second host."""
        api, uuid = self._running.api, self._server['id']
        api.post_server_action(uuid, {'os-migrateLive': {
            'host': self.hosts[1], 'block_migration': 'auto'}})
        deadline = time.monotonic() + waiting.PATIENCE_SECONDS
        # The request counts too, so send few.
        time.sleep(_INTERVAL_SECONDS)
        while (not migrations.is_settled(api, uuid) and
               time.monotonic() < deadline):
            time.sleep(_INTERVAL_SECONDS)
        status = migrations.get_newest(api, uuid)['status']
        if status != 'completed':
            raise SystemExit('The live migration is %s.' % status)


def _measure_recount(sides, number, repeats, calls, held):
    """Return the figures of a recount."""
    key = 'recount.%d' % number

    def run(side):
        return clock.seconds(side.recount)[0]

    found = clock.figures(key, *clock.alternate(
        lambda: run(sides[STOCK]), lambda: run(sides[OURS]), repeats), 1)
    for name, side in sides.items():
        calls.clear()
        held.clear()
        with queries.counting({name: side.engine}) as counter:
            side.recount()
        found['%s.%s_libvirt_calls' % (key, name)] = sum(calls.values())
        found['%s.%s_queries' % (key, name)] = counter[name]
        found['%s.%s_lock_us' % (key, name)] = 1e6 * sum(held)
    found[key + '.libvirt_ratio'] = (
        found[key + '.ours_libvirt_calls'] /
        found[key + '.stock_libvirt_calls'])
    return found


def _measure_operation(sides, number, repeats, operation, held):
    """Return the figures of an operation of one guest."""
    times, in_lock = collections.defaultdict(list), {}
    for turn in range(repeats):
        for name, side in sorted(sides.items(), reverse=bool(turn % 2)):
            if operation != 'create':
                side.create()
            held.clear()
            times[name].append(clock.seconds(getattr(side, operation))[0])
            in_lock[name] = sum(held)
            if operation != 'delete':
                side.delete()
    key = 'recount.%s_%d' % (operation, number)
    found = clock.figures(key, times[STOCK], times[OURS], 1)
    for name in sides:
        found['%s.%s_lock_us' % (key, name)] = 1e6 * in_lock[name]
    return found


@contextlib.contextmanager
def _counting_libvirt():
    """Yield a Counter of the calls of libvirt by name."""
    calls = collections.Counter()
    restored = []
    depth = 0

    def count(name, method):
        def run(*args, **kwargs):
            nonlocal depth
            # The fake calls itself, which is no call of libvirt.
            if not depth:
                calls[name] += 1
            depth += 1
            try:
                return method(*args, **kwargs)
            finally:
                depth -= 1
        return run

    for owner in fakelibvirt.Domain, fakelibvirt.Connection:
        for name, method in list(vars(owner).items()):
            if (callable(method) and not name.startswith('_') and
                    name not in _LOCAL):
                restored.append((owner, name, method))
                setattr(owner, name, count(name, method))
    try:
        yield calls
    finally:
        for owner, name, method in restored:
            setattr(owner, name, method)


@contextlib.contextmanager
def _timing_lock():
    """Yield a list of the seconds that the lock of the tracker was held."""
    held = []
    lock = lockutils.internal_fair_lock(
        resource_tracker.COMPUTE_RESOURCE_SEMAPHORE)
    take = lock.write_lock

    @contextlib.contextmanager
    def take_and_time():
        with take():
            start = time.perf_counter()
            yield
            held.append(time.perf_counter() - start)

    lock.write_lock = take_and_time
    try:
        yield held
    finally:
        del lock.write_lock
