# SPDX-License-Identifier: Apache-2.0

"""Measure what a whole request for instances costs in nova-scheduler.

The manager of nova-scheduler, Nova's databases and Placement are real, and run
in one process. The hosts are copies of the records of one host with a real
nova-compute. Plain Nova has ``NUMATopologyFilter`` and its own weighers, and
asks for instances without a priority.
"""

import collections
from concurrent import futures
import contextlib
import gc
import itertools
import statistics
import time
import tracemalloc
import uuid

import nova.conf
from nova import context
from nova.db.api import api
from nova.db.main import api as main
from nova.scheduler import manager
from nova.scheduler import request_filter
from nova.scheduler import utils
from nova.tests import fixtures as nova_fixtures
from placement import db_api as placement

from benchmarks import clock
from benchmarks import copies
from benchmarks import queries
from benchmarks import request_specs
from nova_prio.scheduler import request_filter as prio_request_filter
from nova_prio_scenario import cloud

#: Kind of request -> arguments of ``request_specs.build_sized``.
KINDS = {'high': {'priority': 'high'}, 'low': {'priority': 'low'},
         'ordinary': {'priority': None},
         'pinned': {'priority': None, 'is_pinned': True}}
#: Numbers of instances of one request.
INSTANCES = (1, 10)
LIMITS = (1000, 100, 20)
#: Options in which the sides differ.
_LISTS = ('available_filters', 'weight_classes')
_MULTIPLIERS = ('cpu_weight_multiplier', 'soft_affinity_weight_multiplier',
                'soft_anti_affinity_weight_multiplier')
#: Parts of the time of a request.
PARTS = ('placement', 'host_states', 'filters', 'weighers')
#: Most requests whose statements are counted: other services disturb some.
_COUNTED = 3
#: The instances of each host.
_ON_HOST = ({'hw:cpu_priority': 'high'}, {'hw:cpu_priority': 'low'})


class Side:
    """A nova-scheduler: that of stock Nova, or one with this package.

    :param running: :class:`nova_prio_scenario.cloud.Cloud`
    """

    def __init__(self, running, is_stock):
        """Make the manager, which reads the filters and weighers now."""
        self.is_stock = is_stock
        self.seconds = collections.Counter()
        self._flags = running.flags
        self._request_filters = list(request_filter.ALL_REQUEST_FILTERS)
        options = nova.conf.CONF.filter_scheduler
        enabled = list(options.enabled_filters)
        if is_stock:
            self._request_filters.remove(prio_request_filter.restrict_request)
            enabled[enabled.index('PriorityFilter')] = 'NUMATopologyFilter'
        self._options = {'enabled_filters': enabled}
        for name in _LISTS:
            self._options[name] = [
                each for each in getattr(options, name)
                if not is_stock or each.startswith('nova.')]
        for name in _MULTIPLIERS:
            self._options[name] = 1.0 if is_stock else 0.0
        self._configure()
        # The scheduler reads the instances of all hosts in a thread, which
        # would compute beside the requests: let it end first.
        with nova_fixtures.SpawnIsSynchronousFixture():
            self.manager = manager.SchedulerManager()
        self._time(self.manager, 'host_states', '_get_all_host_states')
        hosts = self.manager.host_manager
        self._time(hosts, 'filters', 'get_filtered_hosts')
        self._time(hosts, 'weighers', 'get_weighed_hosts')

    def _configure(self):
        """Set the options: the weighers read some of them for each request."""
        self._flags(group='filter_scheduler', **self._options)

    def _time(self, owner, part, name):
        """Add the processor time of a method to a part."""
        method = getattr(owner, name)

        def run(*args, **kwargs):
            start = time.process_time()
            # The method may be a generator, which works when it is read.
            found = list(method(*args, **kwargs))
            self.seconds[part] += time.process_time() - start
            return found

        setattr(owner, name, run)

    @contextlib.contextmanager
    def _timing_placement(self):
        """Time the two calls of Placement that a request makes."""
        client = self.manager.placement_client
        candidates, claim = (
            client.get_allocation_candidates, utils.claim_resources)

        def time_call(call):
            def run(*args, **kwargs):
                start = time.process_time()
                found = call(*args, **kwargs)
                self.seconds['placement'] += time.process_time() - start
                return found
            return run

        client.get_allocation_candidates = time_call(candidates)
        utils.claim_resources = time_call(claim)
        try:
            yield
        finally:
            client.get_allocation_candidates = candidates
            utils.claim_resources = claim

    def select(self, kind, instances, requests=1):
        """Schedule requests; return their processor time in seconds.

        :param kind: a key of KINDS
        :param instances: number of instances of a request
        :param requests: number of requests, which arrive at once
        """
        specs, uuids = [], []
        for _ in range(requests):
            spec = request_specs.build_sized(
                is_stock=self.is_stock, **KINDS[kind]).spec
            spec.num_instances = instances
            specs.append(spec)
            uuids.append([str(uuid.uuid4()) for _ in range(instances)])
        admin = context.get_admin_context()
        before = request_filter.ALL_REQUEST_FILTERS
        request_filter.ALL_REQUEST_FILTERS = self._request_filters
        self.seconds.clear()
        self._configure()
        try:
            with (self._timing_placement(),
                  futures.ThreadPoolExecutor(requests) as pool):
                seconds, selections = clock.seconds(
                    lambda: list(pool.map(self._select_one, specs, uuids)))
        finally:
            request_filter.ALL_REQUEST_FILTERS = before
        placed = sum(map(len, selections))
        if placed != requests * instances:
            raise SystemExit('%d instances of %d have a host.' % (
                placed, requests * instances))
        for each in itertools.chain.from_iterable(uuids):
            self.manager.placement_client.delete_allocation_for_instance(
                admin, each, force=True)
        return seconds

    def _select_one(self, spec, uuids):
        return self.manager.select_destinations(
            context.get_admin_context(), spec_obj=spec, instance_uuids=uuids,
            return_objects=True, return_alternates=True)


def measure(size, repeats, limits=LIMITS, instances=INSTANCES):
    """Return the figures of each kind of request, at each limit.

    :param size: number of hosts
    :param repeats: number of requests of each side
    :param instances: numbers of instances of a request
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    with cloud.Cloud.running() as running:
        engines = copy_hosts(running, size)
        # The second side changes the options that the first one reads.
        ours = Side(running, is_stock=False)
        stock = Side(running, is_stock=True)
        found = {'end_to_end.hosts': size, 'end_to_end.repeats': repeats}
        for limit in limits:
            running.flags(max_placement_results=limit, group='scheduler')
            for number in instances:
                for kind in KINDS:
                    key = 'end_to_end.%d.%s.%d_of_%d' % (
                        size, kind, number, limit)
                    found.update(measure_kind(
                        key, stock, ours, kind, number, repeats, engines))
        return found


def copy_hosts(running, size, cells=1):
    """Make hosts with instances; return the engines of the databases.

    :param running: :class:`nova_prio_scenario.cloud.Cloud`
    :param size: number of hosts of each cell
    :param cells: number of Nova's cells
    :returns: dict, name -> engine
    """
    # No service runs on the copied hosts: their heartbeats become old.
    running.flags(service_down_time=24 * 60 * 60)
    flavors = [running._create_flavor(
        vcpu=2, memory_mb=256, disk=1, extra_spec=extra_specs)
        for extra_specs in _ON_HOST]
    engines = {'nova_api': api.get_engine(),
               'placement': placement.get_placement_engine()}
    for number in range(1, cells + 1):
        cell, host = 'cell%d' % number, 'host%d' % number
        running.start_host(
            host, cpus=64, cells=2, dedicated='0-23,32-55',
            shared='24-31,56-63', ratio=2.0, mix=True, memory_mb=131072,
            aggregate={'priority_mix': 'true'}, nova_cell=cell)
        instances = []
        for flavor in flavors:
            body = running._build_server(flavor_id=flavor, networks='none')
            body['host'] = host
            server = running.api.post_server({'server': body})
            instances.append(
                running._wait_for_state_change(server, 'ACTIVE')['id'])
        running.update_host(host)
        mapping = running.host_mappings[host]
        copies.copy_host(mapping, instances, size)
        with context.target_cell(context.get_admin_context(),
                                 mapping.cell_mapping) as cctxt:
            engines[cell] = main.get_engine(context=cctxt)
    return engines


def measure_kind(key, stock, ours, kind, instances, repeats, engines):
    """Return the figures of one kind of request, in milliseconds.

    :param key: prefix of the keys of the result
    :param stock: Side
    :param ours: Side
    :param kind: a key of KINDS
    :param instances: number of instances
    :param repeats: number of requests of each side
    :param engines: result of ``copy_hosts``
    """
    # The first request fills caches.
    of_side = {stock: collections.defaultdict(list),
               ours: collections.defaultdict(list)}
    for side in of_side:
        side.select(kind, instances)

    def run(side):
        seconds = side.select(kind, instances)
        for part in PARTS:
            of_side[side][part].append(side.seconds[part])
        return seconds

    times = clock.alternate(lambda: run(stock), lambda: run(ours), repeats)
    found = clock.figures(key, *times, 1)
    for name, side in ('stock', stock), ('ours', ours):
        for part in PARTS:
            found['%s.%s_%s_ms' % (key, name, part)] = 1000 * (
                statistics.median(of_side[side][part]))
        found['%s.%s_queries' % (key, name)] = _count_queries(
            side, kind, instances, engines, min(_COUNTED, repeats))
        if instances == 1:
            found['%s.%s_peak_mib' % (key, name)] = _measure_peak(
                side, kind, instances)
    return found


def _count_queries(side, kind, instances, engines, number):
    """Return dict, database -> statements of a request, the fewest seen.

    :param number: number of requests
    """
    counters = []
    for _ in range(number):
        with queries.counting(engines) as counter:
            side.select(kind, instances)
        counters.append(dict(counter))
    return min(counters, key=lambda counter: sum(counter.values()))


def _measure_peak(side, kind, instances):
    """Return the peak of the memory that a request allocates, in MiB."""
    gc.collect()
    tracemalloc.start()
    try:
        side.select(kind, instances)
        return tracemalloc.get_traced_memory()[1] / 1024 ** 2
    finally:
        tracemalloc.stop()
