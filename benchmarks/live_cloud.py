# SPDX-License-Identifier: Apache-2.0

"""One live cloud, and the cost of a create in it.

Its figures are in seconds, each for one create or one request.
"""

import concurrent.futures
import datetime
import functools
import multiprocessing
import os
import re
import statistics
import tempfile
import threading
import time

import psutil

from benchmarks import live_scheduler
from tests.libvirt import boot_sector
from tests.live import catalog
from tests.live import client
from tests.live import cloud
from tests.live import waiting

#: With this package and without it: room for all servers of a batch on either
#: host, and the time that nova-scheduler took for each answer, in its log.
MORE = {
    'compute': '[DEFAULT]\ncpu_allocation_ratio = 16.0\n',
    'scheduler': '[DEFAULT]\n'
                 'default_log_levels = oslo_messaging._drivers=DEBUG\n'}
NAME = 'throughput'
#: Servers that are created at a time, and how many of them do not count: the
#: first ones after a start take longer.
WORKERS = 4
#: Seconds that a server may take to be ACTIVE, or all to be gone.
SECONDS = 300
BUILT = re.compile(r'(\S+ \S+) .*\[instance: (\S+)\] '
                   r'Took \S+ seconds to build instance')
SCHEDULED = re.compile(r'sending reply .* time elapsed: ([\d.]+)s')


class Log:
    """The lines that processes write to their logs from now on."""

    def __init__(self, *paths):
        # The beginning of an incomplete line.
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

    Polling the API would add to the measured cost.
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


class Cloud:
    """A cloud that is up, with servers that have no priority.

    nova-scheduler is asked by a process of its own, as Nova's configuration
    is that of a process.
    """

    def __init__(self, layout):
        self._layout = layout
        self._cloud = cloud.Cloud(layout)
        self._connection = catalog.connect(layout)
        self._asking = concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context('spawn'),
            live_scheduler.configure, (layout,))

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

    def start(self, is_plain):
        """Restart Nova with or without this package, and warm it up."""
        self._cloud.configure(is_plain, MORE)
        self.create(WORKERS)
        self.ask(WORKERS)

    def create(self, number):
        """Create servers, some at a time, and delete them.

        :returns: dict, figure -> seconds
        """
        logs = self._cloud.processes.log
        log = Log(*(logs('nova-compute-' + name)
                    for name in self._layout.hosts))
        create = functools.partial(self._create, Builds(log))
        cpu = self._cpu_seconds()
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            times = list(pool.map(create, range(number)))
        cpu = self._cpu_seconds() - cpu
        log.close()
        self._delete()
        starts, ends = zip(*times)
        return {
            'create': (max(ends) - min(starts)) / number,
            'active': statistics.fmean(ends) - statistics.fmean(starts),
            'cpu': cpu / number}

    def ask(self, number):
        """Ask nova-scheduler for hosts, one request after the other.

        :returns: dict, figure -> seconds
        :raises RuntimeError: if its log does not tell of all answers
        """
        log = Log(self._cloud.processes.log('nova-scheduler'))
        cpu = self._cpu_seconds('nova-scheduler')
        self._asking.submit(
            live_scheduler.ask, self._flavor, self._image, number).result()
        cpu = self._cpu_seconds('nova-scheduler') - cpu
        times = [float(match[1]) for match in map(
            SCHEDULED.search, log.lines()) if match]
        log.close()
        if len(times) != number:
            raise RuntimeError('nova-scheduler answered %d times to %d '
                               'requests.' % (len(times), number))
        return {'scheduler': statistics.fmean(times),
                'scheduler.cpu': cpu / number}

    def _create(self, builds, number):
        start = time.time()
        server = self._connection.compute.create_server(
            name='%s-%d' % (NAME, number), flavor_id=self._flavor,
            image_id=self._image, networks='none')
        return start, builds.wait(server.id)

    def _delete(self):
        compute = self._connection.compute

        def servers():
            return list(compute.servers(details=False, name='^%s-' % NAME))

        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(compute.delete_server, servers()))
        waiting.soon(lambda: not servers(), every=0.2, within=SECONDS)

    def _cpu_seconds(self, *names):
        """Return the processor time of services so far, of all by default.

        The time of child processes is included, that of guests is not.
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
