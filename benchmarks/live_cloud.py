# SPDX-License-Identifier: Apache-2.0

"""The cost of a create in one live cloud.

The figures are seconds of one create or of one request.
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

#: Options of both clouds: each host must have capacity for all servers of a
#: batch, and nova-scheduler must log the time of each answer.
MORE = {
    'compute': '[DEFAULT]\ncpu_allocation_ratio = 16.0\n',
    'scheduler': '[DEFAULT]\n'
                 'default_log_levels = oslo_messaging._drivers=DEBUG\n'}
NAME = 'throughput'
#: Number of servers that are created at the same time. As many servers are
#: created after a start and do not count, because they take longer.
WORKERS = 4
#: Maximum seconds until a server is ACTIVE, and until all are deleted.
SECONDS = 300
BUILT = re.compile(r'(\S+ \S+) .*\[instance: (\S+)\] '
                   r'Took \S+ seconds to build instance')
SCHEDULED = re.compile(r'sending reply .* time elapsed: ([\d.]+)s')


class Log:
    """The lines that processes log after this object was created."""

    def __init__(self, *paths):
        # The beginning of an incomplete line.
        self._rests = {open(path): '' for path in paths}
        for file in self._rests:
            file.seek(0, os.SEEK_END)

    def lines(self):
        """Yield the complete lines since the last call."""
        for file, rest in self._rests.items():
            *lines, self._rests[file] = (rest + file.read()).split('\n')
            yield from lines

    def close(self):
        """Close the log files."""
        for file in self._rests:
            file.close()


class Builds:
    """The times at which servers became ACTIVE, from the logs of nova-compute.

    Polling the API would add to the measured cost.
    """

    def __init__(self, log):
        self._log = log
        self._lock = threading.Lock()
        self._found = {}

    def wait(self, uuid):
        """Return when a server became ACTIVE, in seconds since the epoch.

        :raises RuntimeError: if the server is not ACTIVE after SECONDS
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
    """A running cloud, with servers that have no priority.

    A child process calls nova-scheduler, because one process can have only
    one configuration of Nova.
    """

    def __init__(self, layout):
        self._layout = layout
        self._cloud = cloud.Cloud(layout)
        self._connection = catalog.connect(layout)
        self._scheduler_client = concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context('spawn'),
            live_scheduler.configure, (layout,))

    def prepare(self):
        """Create the image, the flavor, and an aggregate of all hosts."""
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
        :raises RuntimeError: if the log lacks an answer of nova-scheduler
        """
        log = Log(self._cloud.processes.log('nova-scheduler'))
        cpu = self._cpu_seconds('nova-scheduler')
        self._scheduler_client.submit(
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

        def list_servers():
            return list(compute.servers(details=False, name='^%s-' % NAME))

        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(compute.delete_server, list_servers()))
        waiting.soon(lambda: not list_servers(), every=0.2, within=SECONDS)

    def _cpu_seconds(self, *names):
        """Return the processor time of services, of all services by default.

        Child processes are included, except guests.
        """
        pids = self._cloud.status()
        return sum(cpu_seconds(pids[name]) for name in names or pids)


def cpu_seconds(pid):
    """Return the processor time of a process and its children but guests."""
    process = psutil.Process(pid)
    found = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            if not each.name().startswith('qemu-system'):
                found += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            # The parent process includes the time of an ended child.
            pass
    return found
