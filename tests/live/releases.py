# SPDX-License-Identifier: Apache-2.0

"""Services of a live cloud that restart from another virtual environment.

``NOVA_PRIO_OLD`` is the virtual environment of the old release, from which
the services of Nova are started first. The new release is in the environment
of this Python.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import time

from tests.live import catalog
from tests.live import client
from tests.live import cloud
from tests.live import faults
from tests.live import host
from tests.live import layout as layouts
from tests.live import logs
from tests.live import snapshots
from tests.live import waiting
from tests.live import watch

OLD = 'NOVA_PRIO_OLD'
SCHEDULER = 'nova-scheduler'
#: Flavors of servers that migrate.
FLAVORS = ('load-high', 'load-low', 'load-ordinary')
#: Number of operations of the users before and after a restart.
BEFORE, AFTER = 2, 3


class Release:
    """A release of Nova and of this package, in a virtual environment.

    :param layout: Layout
    :param nova: pathlib.Path of the virtual environment
    """

    def __init__(self, layout, nova):
        self.cloud = cloud.Cloud(layout, nova=nova)
        self._layout = layout
        self._programs = nova / 'bin'
        # With -P, the checkout is not searched.
        self._start_line = 'nova_prio %s:' % self._run(
            'python', '-P', '-c', 'from importlib import metadata; '
            'print(metadata.version("nova-prio"))').strip()

    def restart(self, service):
        """Restart a service from this release; wait for its start line."""
        written = logs.NewLines(self._layout)
        self.cloud.restart(service)
        self.cloud.processes.wait(service, lambda: any(
            self._start_line in line for line in written.lines(service)))

    def check_service(self, file, name=None):
        """Run ``nova-prio-status upgrade check`` with one more nova.conf.

        :param file: name of the file, without its suffix
        :param name: host that runs the command; the controller by default
        :raises subprocess.CalledProcessError: if the exit status is not 0
        """
        files, enter = ['common', 'nova', file], []
        if name:
            files = ['common', name, file]
            enter = host.read_record(self._layout, name)['enter']
        options = ['--config-file=%s' % (
            self._layout.etc / 'nova' / (each + '.conf')) for each in files]
        self._run('nova-prio-status', *options, 'upgrade', 'check',
                  enter=enter)

    def explain(self, flavor):
        """Return dict, host -> whether it takes a new server of a flavor."""
        rows = json.loads(self._run(
            'nova-prio', 'explain', '--flavor', flavor, '-f', 'json',
            *self._layout.nova_options, '--config-file=%s' % (
                self._layout.etc / 'nova' / 'readme-scheduler.conf'),
            statuses=(0, 3)))
        return {row['Host']: row['Result'] == 'passes' for row in rows}

    def read_sold(self):
        """Return dict, host -> (PCPU, VCPU) in use, as the hosts report."""
        rows = json.loads(self._run(
            'nova-prio', 'capacity', 'show', '-f', 'json',
            *self._layout.nova_options))
        return {row['Host']: (row['High Sold'], row['Low Sold'])
                for row in rows}

    def _run(self, program, *arguments, statuses=(0,), enter=()):
        """Run a program of this release and return its standard output."""
        done = subprocess.run(
            [*enter, self._programs / program, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            timeout=client.COMMAND_SECONDS)
        if done.returncode not in statuses:
            print(done.stdout)
            done.check_returncode()
        return done.stdout


def old_release(layout):
    """Return the Release from which the cloud was started."""
    return Release(layout, pathlib.Path(os.environ[OLD]))


def new_release(layout):
    """Return the Release beside this Python."""
    return Release(layout, layouts.PROGRAMS.parent)


class Change:
    """Restarts services from another release while users work.

    :param layout: Layout
    :param users: operations.Users
    :param releases: list of Release: all releases in the cloud
    """

    def __init__(self, layout, users, releases):
        self._layout = layout
        self._users = users
        self._releases = releases
        self._connection = catalog.connect(layout)
        #: Names of servers that Nova did not finish, and the OrphanGuests.
        self.stuck_servers, self.orphan_guests = [], []

    def restart(self, service, release, seconds):
        """Restart a service from a release, and check the cloud.

        :param seconds: how long the users go on to work
        """
        print('%s %s from %s' % (
            time.strftime('%X'), service, release.cloud.nova))
        written = logs.NewLines(self._layout)
        if service == SCHEDULER:
            # Nova fails an operation that ends while no scheduler runs.
            release.restart(service)
            before = self._last_report(service)
            waiting.soon(lambda: before != self._last_report(service),
                         every=1, within=client.SECONDS)
        with self._users:
            self._users.wait_for_steps(BEFORE)
            if service != SCHEDULER:
                release.restart(service)
            time.sleep(seconds)
            self._users.wait_for_steps(AFTER)
        # As after a kill: see test_faults.
        self.stuck_servers += self._users.delete_stuck()
        self.orphan_guests += faults.remove_orphan_guests(
            self._layout, written, self._users.failed_or_stuck)
        assert [] == watch.settle(
            self._layout, audit=release.cloud.audit).violations
        self._check_agreement()

    def _last_report(self, binary):
        """Return when the only service with a binary has reported last."""
        service, = self._connection.compute.services(binary=binary)
        return service.updated_at

    def _check_agreement(self):
        """Assert that all releases read the reports of all hosts alike.

        The reports must name what Placement has allocated: nova-compute
        builds its leases anew when it starts.
        """
        found = self._ask(Release.explain, 'load-high')
        assert [found[0]] * len(found) == found
        waiting.soon(self._is_sold_as_allocated, every=5,
                     within=watch.SETTLE_SECONDS)

    def _is_sold_as_allocated(self):
        providers = snapshots.read_all(
            self._layout, self._connection).providers
        allocated = {each.name: (each.usages['PCPU'], each.usages['VCPU'])
                     for each in providers}
        found = self._ask(Release.read_sold)
        print(time.strftime('%X'), allocated, found)
        return [allocated] * len(found) == found

    def _ask(self, method, *arguments):
        """Return the answers of all releases."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = [pool.submit(method, release, *arguments)
                     for release in self._releases]
            return [each.result() for each in asked]


class Travelers:
    """Context with servers on one host that migrate to other hosts and back.

    :param home: the host
    """

    def __init__(self, layout, home):
        connection = catalog.connect(layout)
        self._layout = layout
        self._compute = connection.compute
        self._home = home
        image = connection.image.find_image('guest').id
        self._servers = [self._compute.create_server(
            name='traveler-' + flavor, host=home, networks='none',
            flavor_id=self._compute.find_flavor(flavor).id, image_id=image)
            for flavor in FLAVORS]

    def __enter__(self):
        for server in self._servers:
            self._compute.wait_for_server(server, wait=client.SECONDS)
        return self

    def __exit__(self, *exc_info):
        for server in self._servers:
            self._compute.delete_server(server)
        for server in self._servers:
            self._compute.wait_for_delete(server, wait=client.SECONDS)

    def travel(self):
        """Migrate each server live to another host, and back."""
        for server in self._servers:
            self._migrate(server)
            assert self._home != self._where(server)
            self._migrate(server, host=self._home)
            assert self._home == self._where(server)

    def _where(self, server):
        return self._compute.get_server(server.id).compute_host

    def _migrate(self, server, **target):
        self._compute.live_migrate_server(
            server.id, block_migration='auto', **target)
        # The source has its allocation until the migration is completed, after
        # the server has no task any more.
        assert [] == watch.settle(self._layout).violations
