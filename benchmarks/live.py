# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What a create costs on a live cloud: ``python -m benchmarks.live``.

With this package and without it, in turn on one cloud: Nova starts anew, then
servers without a priority are created, some at a time, and nova-scheduler is
asked for hosts of more of them, one at a time. A pair is one of each side;
what differs within a pair is the figure. Writes throughput.json, after each
half of a pair. ``tox -e throughput`` starts the cloud.
"""

import argparse
import concurrent.futures
import datetime
import functools
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import threading
import time

import psutil
import scipy.stats
import tenacity

from benchmarks import clock
from benchmarks import live_scheduler
from benchmarks import live_tables
from benchmarks import tables
from tests.libvirt import boot_sector
from tests.live import catalog
from tests.live import client
from tests.live import cloud
from tests.live import layout as layouts

#: Both sides have it: room for all servers of a batch on either host, and the
#: time that nova-scheduler took for each answer, in its log.
MORE = {
    'compute': '[DEFAULT]\ncpu_allocation_ratio = 16.0\n',
    'scheduler': '[DEFAULT]\n'
                 'default_log_levels = oslo_messaging._drivers=DEBUG\n'}
NAME = 'throughput'
#: The part of the batches that is left out at either end: some of them fall
#: together with what Nova does from time to time.
TRIM = 0.2
#: Requests that do not count: the first ones after a start take longer.
WARM_REQUESTS = 10
#: Seconds that a server may take to be ACTIVE, or all to be gone.
SECONDS = 300
BUILT = re.compile(r'(\S+ \S+) .*\[instance: (\S+)\] '
                   r'Took \S+ seconds to build instance')
SCHEDULED = re.compile(r'sending reply .* time elapsed: ([\d.]+)s')


class Log:
    """The lines that processes write to their logs from now on."""

    def __init__(self, *paths):
        # What was read of a line that is not complete.
        self._rests = {open(path): '' for path in paths}
        for file in self._rests:
            file.seek(0, os.SEEK_END)

    def lines(self):
        """Yield the lines that are complete since it was last asked."""
        for file, rest in self._rests.items():
            *lines, self._rests[file] = (rest + file.read()).split('\n')
            yield from lines

    def close(self):
        """Read no more."""
        for file in self._rests:
            file.close()


class Builds:
    """When servers became ACTIVE, by the logs of nova-compute.

    To ask the API again and again would cost what is to be measured.
    """

    def __init__(self, log):
        self._log = log
        self._lock = threading.Lock()
        self._found = {}

    def wait(self, uuid):
        """Return when a server became ACTIVE, in seconds since the epoch.

        :raises RuntimeError: if it takes too long
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                for match in filter(None, map(BUILT.match, self._log.lines())):
                    when = datetime.datetime.fromisoformat(match[1])
                    self._found[match[2]] = when.timestamp()
                if uuid in self._found:
                    return self._found[uuid]
            time.sleep(0.005)
        raise RuntimeError('Server %s is not ACTIVE after %d seconds.' % (
            uuid, SECONDS))


class Bench:
    """Servers without a priority on a cloud, and what they cost."""

    def __init__(self, layout, batch, workers, requests):
        """Measure on a cloud that is up.

        :param batch: how many servers there are before they are deleted
        :param workers: how many of them are created at a time
        :param requests: how often nova-scheduler is asked
        """
        self._layout = layout
        self._cloud = cloud.Cloud(layout)
        self._connection = catalog.connect(layout)
        self._batch = batch
        self._workers = workers
        self._requests = requests
        self._scheduler = live_scheduler.Scheduler(layout, self._connection)

    def prepare(self):
        """Make the image, the flavor, and an aggregate of all hosts."""
        with tempfile.TemporaryDirectory() as directory:
            client.Client(self._layout).run(
                'image', 'create', '--file',
                boot_sector.build(boot_sector.IDLE, directory),
                '--disk-format', 'raw', '--container-format', 'bare', NAME)
        self._image = self._connection.image.find_image(NAME).id
        compute = self._connection.compute
        self._flavor = compute.create_flavor(
            name=NAME, vcpus=1, ram=64, disk=1).id
        aggregate = compute.create_aggregate(name=NAME)
        compute.set_aggregate_metadata(aggregate, {'priority_mix': 'true'})
        for host in self._layout.hosts:
            compute.add_host_to_aggregate(aggregate, host)

    def clean(self):
        """Delete servers and what ``prepare`` made; start Nova as it was."""
        self._delete()
        compute, image = self._connection.compute, self._connection.image
        aggregate = compute.find_aggregate(NAME)
        for host in self._layout.hosts:
            compute.remove_host_from_aggregate(aggregate, host)
        compute.delete_aggregate(aggregate)
        compute.delete_flavor(compute.find_flavor(NAME))
        image.delete_image(image.find_image(NAME))
        self._cloud.configure(is_plain=False)

    def half(self, is_plain, batches):
        """Return the figures of one side: dict, name -> per create."""
        self._cloud.configure(is_plain, MORE)
        # The first servers after a start take longer.
        self.create(self._workers)
        found = [self.create(self._batch) for _ in range(batches)]
        return {**self.schedule(), **{
            name: scipy.stats.trim_mean([one[name] for one in found], TRIM)
            for name in found[0]}}

    def create(self, number):
        """Create a batch and delete it; returns figures as ``half``."""
        logs = self._cloud.processes.log
        log = Log(*(logs('nova-compute-' + name)
                    for name in self._layout.hosts))
        create = functools.partial(self._create_one, Builds(log))
        cpu = self._cpu_seconds()
        with concurrent.futures.ThreadPoolExecutor(self._workers) as pool:
            times = list(pool.map(create, range(number)))
        cpu = self._cpu_seconds() - cpu
        log.close()
        self._delete()
        starts, ends = zip(*times)
        return {
            'create': (max(ends) - min(starts)) / number,
            'active': statistics.fmean(ends) - statistics.fmean(starts),
            'cpu': cpu / number}

    def schedule(self):
        """Ask nova-scheduler; returns figures as ``half``."""
        server = self._connection.compute.wait_for_server(
            self._create_server(0), wait=SECONDS)
        self._scheduler.ask(server.id, WARM_REQUESTS)
        log = Log(self._cloud.processes.log('nova-scheduler'))
        cpu = self._cpu_seconds('nova-scheduler')
        self._scheduler.ask(server.id, self._requests)
        cpu = self._cpu_seconds('nova-scheduler') - cpu
        waits = [float(match[1]) for match in map(
            SCHEDULED.search, log.lines()) if match]
        log.close()
        if len(waits) != self._requests:
            raise RuntimeError('nova-scheduler answered %d times to %d '
                               'requests.' % (len(waits), self._requests))
        self._delete()
        return {'scheduler': statistics.median(waits),
                'scheduler.cpu': cpu / self._requests}

    def _create_one(self, builds, number):
        start = time.time()
        return start, builds.wait(self._create_server(number).id)

    def _create_server(self, number):
        return self._connection.compute.create_server(
            name='%s-%d' % (NAME, number), flavor_id=self._flavor,
            image_id=self._image, networks='none')

    def _delete(self):
        compute = self._connection.compute

        def servers():
            return list(compute.servers(details=False, name='^%s-' % NAME))

        with concurrent.futures.ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(compute.delete_server, servers()))
        tenacity.retry(
            retry=tenacity.retry_if_result(bool),
            stop=tenacity.stop_after_delay(SECONDS),
            wait=tenacity.wait_fixed(0.5))(servers)()

    def _cpu_seconds(self, *names):
        """Return the processor time of services so far, of all by default.

        That of what they ran is included, that of the guests is not.
        """
        pids = self._cloud.status()
        return sum(_cpu_seconds(pids[name]) for name in names or pids)


def _cpu_seconds(pid):
    process = psutil.Process(pid)
    found = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            if not one.name().startswith('qemu-system'):
                found += sum(one.cpu_times()[:4])
        except psutil.NoSuchProcess:
            # Its parent has its time.
            pass
    return found


def main():
    """Measure, write what was found and print it beside what is allowed.

    :returns: the exit status: 0 where all that is required is reached
    """
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.live', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--output', type=pathlib.Path,
                        default=pathlib.Path('throughput.json'))
    parser.add_argument('--pairs', type=int, default=30)
    parser.add_argument('--batches', type=int, default=5,
                        help='of servers, in each half of a pair')
    parser.add_argument('--batch', type=int, default=24, help='servers')
    parser.add_argument('--workers', type=int, default=4,
                        help='servers that are created at a time')
    parser.add_argument('--requests', type=int, default=200,
                        help='to nova-scheduler, in each half of a pair')
    parser.add_argument('--tables', type=pathlib.Path, metavar='DIRECTORY',
                        help='write the table of the guide there as well')
    arguments = parser.parse_args()
    try:
        layout = layouts.Layout.of_environment()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    found = {'batches': arguments.batches, 'batch': arguments.batch,
             'workers': arguments.workers, 'requests': arguments.requests,
             'plain': [], 'ours': []}
    bench = Bench(layout, arguments.batch, arguments.workers,
                  arguments.requests)
    bench.prepare()

    def half(side):
        started = time.monotonic()
        found[side].append(bench.half(side == 'plain', arguments.batches))
        arguments.output.write_text(json.dumps(found, indent=1) + '\n')
        print('%-5s %3.0f s' % (side, time.monotonic() - started), *(
            '%s %.4f' % (figure, found[side][-1][figure])
            for figure in live_tables.FIGURES), flush=True)

    try:
        clock.alternate(functools.partial(half, 'plain'),
                        functools.partial(half, 'ours'), arguments.pairs)
    finally:
        bench.clean()
    table = live_tables.throughput(found)
    print(tables.as_text(table))
    if arguments.tables:
        tables.write(table, arguments.tables / 'throughput.csv')
    return 0 if live_tables.is_reached(table) else 1


if __name__ == '__main__':
    sys.exit(main())
