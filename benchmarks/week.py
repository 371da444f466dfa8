# SPDX-License-Identifier: Apache-2.0

"""Simulate a week of a cloud: ``python -m benchmarks.week``.

Servers arrive and leave, hosts fail, and hosts are emptied for maintenance.
Plain Nova, mix, and mix with packing or with LowSupplyWeigher get the same
events. The command writes week.json, after each run.
"""

import argparse
import collections
import gc
import heapq
import json
import logging
import pathlib
import resource
import statistics
import time

# This module must import Nova's test code before any other module of Nova.
from nova_prio_scenario import cloud  # noqa: F401, I100, I202

from nova import config
from nova import objects
import numpy

from benchmarks import request_specs
from benchmarks import week_cloud
from benchmarks import week_demand
from nova_prio.compat import hooks
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import gain

#: Name of a side -> (whether it is stock Nova, whether the hosts have mix, the
#: multipliers of PriorityWeighter and of LowSupplyWeigher).
SIDES = {'stock': (True, False, 1.0, 0.0), 'no_mix': (False, False, 1.0, 0.0),
         'mix': (False, True, 1.0, 0.0),
         'mix_packed': (False, True, -1.0, 0.0),
         'mix_supply': (False, True, 1.0, 20.0)}
#: Ways of a request.
CREATE, EVACUATE, MIGRATE = 'create', 'evacuate', 'migrate'


class Week:
    """One run.

    :param demand: a key of ``week_demand.DEMANDS``
    :param side: a key of SIDES
    :param arguments: of the command line
    """

    def __init__(self, demand, side, arguments, limit, is_random):
        """Make the hosts and draw the events."""
        self._is_stock, mix, multiplier, supply_multiplier = SIDES[side]
        conf = hooks.register_options()
        conf.set_override(
            'priority_weight_multiplier', multiplier, group='nova_prio')
        conf.set_override(
            'low_supply_weight_multiplier', supply_multiplier,
            group='nova_prio')
        kinds = week_demand.load_kinds(demand)
        servers = round(arguments.fill * week_demand.count_servers(
            kinds, arguments.hosts))
        # The events depend on the seed alone.
        draw = numpy.random.default_rng(arguments.seed)
        self._events = week_demand.draw_events(
            draw, kinds, servers, arguments.requests, arguments.hosts)
        self.divisions = week_demand.divide_hosts(
            kinds, arguments.hosts, mix)
        self._classes = [kind.needs.class_name for kind in kinds]
        fits = []
        for division in self.divisions:
            fits += [gain.configure(week_demand.make_host(), division.cpus)
                     ] * division.hosts
        # Hosts of their own for pinned servers must not come first.
        self._cloud = week_cloud.Cloud(
            [fits[place] for place in draw.permutation(len(fits))],
            [week_cloud.make_kind(request_specs.build_sized(
                kind.needs.request.priority, self._is_stock,
                kind.needs.request.vcpus, kind.needs.request.memory_mb))
             for kind in kinds],
            draw, self._is_stock, limit, is_random, arguments.seed,
            arguments.busy, arguments.names_limit, bool(supply_multiplier))
        self._places = {}
        self._requests = collections.Counter()
        self._refused = collections.Counter()
        self._sold = collections.Counter()
        self._by_hour = []
        # Number of a low-priority server -> CPU time of a vCPU in each hour.
        self._cpu_time = collections.defaultdict(list)

    def run(self):
        """Run all events; return a dict of figures."""
        start = time.process_time()
        hour = 0
        while self._events:
            event = heapq.heappop(self._events)
            while hour <= min(event.hour, week_demand.HOURS):
                self._by_hour.append(dict(self._sold))
                self._measure_cpu_time()
                hour += 1
            if event.hour > week_demand.HOURS:
                break
            self._handle(event)
        return {'seconds': time.process_time() - start,
                'peak_mib': resource.getrusage(
                    resource.RUSAGE_SELF).ru_maxrss / 1024,
                **self._summarize()}

    def _measure_cpu_time(self):
        """Note the CPU time of each low-priority server, not in stock Nova.

        There, no server has a priority, and all share the CPUs alike.
        """
        if self._is_stock:
            return
        for host in self._cloud.hosts:
            share = host.share
            if share is None:
                continue
            for server, (kind, _) in host.instances.items():
                if self._classes[kind] == cpu_capacity.LOW:
                    self._cpu_time[server].append(share)

    def _handle(self, event):
        if event.name == week_demand.ARRIVE:
            self._arrive(event)
        elif event.name == week_demand.LEAVE:
            number = self._places.pop(event.what, None)
            if number is not None:
                self._count_sold(
                    self._cloud.remove(number, event.what), sign=-1)
        elif event.name == week_demand.RETURN:
            self._cloud.close(event.what, -1)
        else:
            self._cloud.close(event.what, 1)
            self._empty(event)

    def _arrive(self, event):
        server = event.what
        # Servers that arrive before the week count as no request.
        way = CREATE if event.hour >= 0 else None
        if self._request(way, server.number, server.kind):
            self._count_sold(server.kind, sign=1)
            heapq.heappush(self._events, week_demand.Event(
                server.hours, server.number, week_demand.LEAVE,
                server.number))

    def _empty(self, event):
        """Move all servers of a host that failed, or has maintenance.

        If a server does not fit elsewhere, it is lost with a failed host, and
        stays on a host with maintenance.
        """
        is_failure = event.name == week_demand.FAIL
        source = self._cloud.hosts[event.what]
        for server, (kind, _) in list(source.instances.items()):
            way = EVACUATE if is_failure else MIGRATE
            is_placed = self._request(way, server, kind)
            if is_placed or is_failure:
                self._cloud.remove(event.what, server)
            if is_failure and not is_placed:
                del self._places[server]
                self._count_sold(kind, sign=-1)

    def _request(self, way, server, kind):
        """Place a server, and count the result; return whether it fits."""
        number, reason = self._cloud.schedule(server, kind)
        if number is not None:
            self._places[server] = number
        if way:
            key = way, self._classes[kind]
            self._requests[key] += 1
            if number is None:
                self._refused[(*key, reason)] += 1
        return number is not None

    def _count_sold(self, kind, sign):
        self._sold[self._classes[kind]] += (
            sign * self._cloud.kinds[kind].request.vcpus)

    def _summarize(self):
        """Return the figures of the requests, and of the last hour."""
        hosts = self._cloud.hosts
        requests = [kind.request for kind in self._cloud.kinds]
        least_mb = min(each.memory_mb for each in requests)
        least_vcpus = min(each.vcpus for each in requests)
        cpus, memory_mb, free_mb = collections.Counter(), 0, 0
        for host in hosts:
            left = cpu_capacity.calculate_left(host.cpus.sellable, host.used)
            host_mb = host.state.free_ram_mb
            free_mb += host_mb
            # Free CPUs without memory for the smallest server, and free
            # memory without CPUs for it.
            if host_mb < least_mb:
                cpus.update(left._asdict())
            if max(left) < least_vcpus:
                memory_mb += host_mb
        created = sum(number for (way, _), number in self._requests.items()
                      if way == CREATE)
        return {
            'divisions': [(len(each.cpus.dedicated), len(each.cpus.shared),
                           each.hosts) for each in self.divisions],
            'sold_by_hour': self._by_hour,
            'sold': dict(self._sold),
            'requests': _join(self._requests),
            'created': created,
            'refused': _join(self._refused),
            'stranded_vcpus': dict(cpus),
            'stranded_memory_gb': memory_mb / 1024,
            'free_memory_gb': free_mb / 1024,
            'low_cpu_time': _summarize_cpu_time(self._cpu_time),
            'empty_hosts': sum(not host.instances for host in hosts)}


def _summarize_cpu_time(found):
    """Return the CPU time of a vCPU: mean of the worst tenth, and of all.

    :param found: number of a server -> its CPU time in each hour
    :returns: dict; empty without servers
    """
    means = sorted(map(statistics.fmean, found.values()))
    if not means:
        return {}
    worst = means[:max(1, len(means) // 10)]
    return {'worst_tenth': statistics.fmean(worst),
            'all': statistics.fmean(means)}


def _join(counter):
    """Return a Counter with texts as keys."""
    return {': '.join(key): number
            for key, number in sorted(counter.items())}


def _parse_names(choices):
    """Return a parser of names that are separated by commas."""
    def parse(text):
        names = text.split(',')
        if set(names) - set(choices):
            raise argparse.ArgumentTypeError(
                '%s; choose from %s' % (text, ', '.join(choices)))
        return names
    return parse


def main():
    """Simulate each demand with each side, and write the figures."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.week', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--output', type=pathlib.Path,
                        default=pathlib.Path('week.json'))
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--requests', type=int, default=100000,
                        help='for servers, in the week')
    parser.add_argument('--fill', type=float, default=1.0,
                        help='part of the servers for which mix hosts have '
                        'room')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--demands', default=list(week_demand.DEMANDS),
                        type=_parse_names(week_demand.DEMANDS))
    parser.add_argument('--sides', default=['stock', 'mix', 'mix_packed'],
                        type=_parse_names(SIDES))
    parser.add_argument('--limits', type=int, nargs='+', default=[100],
                        help='candidates of a request')
    parser.add_argument('--name-limit', dest='names_limit',
                        action='store_true',
                        help='for each refused server, try the hosts that '
                        'are no candidates')
    parser.add_argument('--orders', nargs='+', default=['random'],
                        choices=['random', 'fixed'],
                        help='order in which Placement returns candidates')
    parser.add_argument('--busy', default='even', choices=week_cloud.BUSY,
                        help='how the times that servers are busy differ')
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    # A cloud has millions of objects that live on. Less frequent collections
    # of garbage save a fifth to a third of the time.
    gc.set_threshold(200000)
    config.parse_args(['bench', '--config-file', '/dev/null'])
    objects.register_all()
    found = {name: getattr(arguments, name)
             for name in ('hosts', 'requests', 'fill', 'seed', 'busy',
                          'names_limit')}
    found['runs'] = []
    for demand in arguments.demands:
        for side in arguments.sides:
            for limit in arguments.limits:
                for order in arguments.orders:
                    week = Week(demand, side, arguments, limit,
                                order == 'random')
                    run = {'demand': demand, 'side': side, 'limit': limit,
                           'order': order, **week.run()}
                    found['runs'].append(run)
                    arguments.output.write_text(
                        json.dumps(found, indent=1) + '\n')
                    print('%s, %s, %d, %s: %d vCPUs sold, %d of %d refused, '
                          '%.0f s' % (
                              demand, side, limit, order,
                              sum(run['sold'].values()),
                              sum(run['refused'].values()),
                              sum(run['requests'].values()), run['seconds']),
                          *['%.0f %% of CPU time: %s' % (100 * part, name)
                            for name, part in run['low_cpu_time'].items()],
                          sep=', ', flush=True)


if __name__ == '__main__':
    main()
