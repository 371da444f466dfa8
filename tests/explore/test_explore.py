# SPDX-License-Identifier: Apache-2.0

"""Stop each operation at each of its points, and disturb it there.

A case is OPERATION:DISTURBANCE:POINT. The points of an operation are found by
a run without a disturbance. After each case, no dedicated CPU may be used
twice, and after two recounts the leases must be those that are needed.
"""

import collections
import os
import random
import sys

from nova import exception
from nova.tests.functional.api import client

from tests.explore import points
from tests.functional import double_pins
from tests.functional import test_leases
from tests.fuzz import faults

#: One case, or the first part of cases, such as "evacuate:" or
#: "evacuate:delete_it:".
CASE = 'NOVA_PRIO_EXPLORE_CASE'
#: Number of the cases to draw; all if it is not set.
CASES = 'NOVA_PRIO_EXPLORE_CASES'
SEED = 'NOVA_PRIO_EXPLORE_SEED'
SOURCE, DESTINATION = double_pins.PinnedCloud.HOSTS


def print_line(text):
    """Print a line; no fixture captures it."""
    print(text, file=sys.__stdout__, flush=True)


class Operations(double_pins.PinnedCloud):
    """Operations on a high-priority instance of four vCPUs.

    Each is a generator: it prepares a server, yields it, and goes on with the
    operation itself, up to its end.
    """

    def act(self, server, **action):
        """Request an action, which may fail, and wait until it has ended."""
        self.request(server, **action)
        self.wait_until_rest(server)

    def request(self, server, **action):
        """Request an action, which the API may refuse."""
        try:
            self.api.post_server_action(server['id'], action)
        except client.OpenStackApiException:
            # The disturbance has changed the state of the server.
            pass

    def wait_until_rest(self, server):
        """Wait until a server has no task, or was deleted."""
        def check():
            try:
                found = self.api.get_server(server['id'])
            except client.OpenStackApiNotFoundException:
                return
            self.assertNotEqual('BUILD', found['status'])
            self.assertIsNone(found['OS-EXT-STS:task_state'])
            self.assertFalse(self.is_migrating_live(server['id']))

        self.soon(check)

    def post_server(self, host):
        """Request a server of four vCPUs on a host; return it."""
        return self.api.post_server({'server': self._build_server(
            flavor_id=self.four, networks='none', az='nova:' + host)})

    def create(self):
        yield {'id': None}
        self.wait_until_rest(self.post_server(SOURCE))

    def delete(self):
        server = self.boot(self.four, host=SOURCE)
        yield server
        self.delete_server(server)

    def delete_server(self, server):
        """Delete a server, which may be deleted already; wait for that."""
        def check():
            self.assertRaises(client.OpenStackApiNotFoundException,
                              self.api.get_server, server['id'])

        try:
            self.api.delete_server(server['id'])
        except client.OpenStackApiNotFoundException:
            return
        self.soon(check)

    def migrate(self):
        server = self.boot(self.four, host=SOURCE)
        yield server
        self.act(server, migrate=None)

    def _boot_migrated(self):
        server = self.boot(self.four, host=SOURCE)
        self._migrate_server(server)
        return server

    def confirm(self):
        server = self._boot_migrated()
        yield server
        self.act(server, confirmResize=None)

    def revert(self):
        server = self._boot_migrated()
        yield server
        self.act(server, revertResize=None)

    def fail_to_migrate(self):
        server = self.boot(self.four, host=SOURCE)
        yield server
        with self.no_disk_moves():
            self.act(server, migrate=None)

    def _migrate_live(self, server):
        self.act(server, **{'os-migrateLive': {
            'host': DESTINATION, 'block_migration': 'auto'}})

    def migrate_live(self):
        server = self.boot(self.four, host=SOURCE)
        yield server
        self._migrate_live(server)

    def fail_last_check(self):
        server = self.boot(self.four, host=SOURCE)
        yield server
        with self.failing(*faults.FAILURES['last-check']):
            self._migrate_live(server)

    def fail_job(self):
        server = self.boot(self.four, host=SOURCE)
        self.fail_next_migration(server['id'], raises=False)
        yield server
        self._migrate_live(server)

    def evacuate(self):
        server = self.boot(self.four, host=SOURCE)
        self.host_down(SOURCE)
        yield server
        self.act(server, evacuate={'host': DESTINATION})

    def shelve(self):
        self.flags(shelved_offload_time=0)
        server = self.boot(self.four, host=SOURCE)
        yield server
        self.act(server, shelve=None)

    def unshelve(self):
        self.flags(shelved_offload_time=0)
        server = self.boot(self.four, host=SOURCE)
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        yield server
        self.act(server, unshelve=None)

    def rebuild(self):
        server = self.boot(self.four, host=SOURCE)
        yield server
        self.act(server, rebuild={'imageRef': server['image']['id']})

    OPERATIONS = (create, delete, migrate, confirm, revert, fail_to_migrate,
                  migrate_live, fail_last_check, fail_job, evacuate, shelve,
                  unshelve, rebuild)

    # The disturbances

    def recount_source(self, server):
        if SOURCE not in self.hosts_down:
            self.recount(SOURCE)

    def recount_destination(self, server):
        self.recount(DESTINATION)

    def create_at_source(self, server):
        """Take the CPUs that a recount has freed, if any."""
        if SOURCE not in self.hosts_down:
            self.recount(SOURCE)
            self.wait_until_rest(self.post_server(SOURCE))

    def create_at_destination(self, server):
        """Take the CPUs that a recount has freed, if any."""
        self.recount(DESTINATION)
        self.wait_until_rest(self.post_server(DESTINATION))

    def delete_it(self, server):
        if server['id'] is None:
            server, = self.api.get_servers()
        self.delete_server(server)

    def return_source(self, server):
        if SOURCE in self.hosts_down:
            self.host_up(SOURCE)

    DISTURBANCES = (recount_source, recount_destination, create_at_source,
                    create_at_destination, delete_it, return_source)


class Explore(Operations):
    """Each case, or the drawn ones."""

    def setUp(self):
        super().setUp()
        self.points = self.useFixture(points.Points())

    def test_no_cpu_is_used_twice(self):
        seed = os.environ.get(SEED) or str(random.randrange(10 ** 6))
        print_line('%s=%s' % (SEED, seed))
        cases = [case for case in self._list_cases()
                 if case.startswith(os.environ.get(CASE, ''))]
        number = int(os.environ.get(CASES) or len(cases))
        drawn = random.Random(seed).sample(cases, min(number, len(cases)))
        coverage = collections.Counter()
        violations = []
        for case in drawn:
            try:
                was_reached = self._play(*case.split(':'))
                coverage[case.rpartition(':')[0], was_reached] += 1
            except (AssertionError, exception.NovaException,
                    client.OpenStackApiException) as error:
                violations.append(case)
                print_line('%s=%s: %s' % (CASE, case, error))
            self._clean_up()
        for (pair, was_reached), times in sorted(coverage.items()):
            print_line('%-40s %3d %s' % (
                pair, times, 'stops' if was_reached else 'not reached'))
        self.assertEqual([], violations)

    def _list_cases(self):
        """Return all cases, a list of str."""
        found = []
        chosen = os.environ.get(CASE, '').partition(':')[0]
        for operation in self.OPERATIONS:
            if chosen not in ('', operation.__name__):
                continue
            self._play(operation.__name__)
            reached = self.points.reached
            self._clean_up()
            found += [':'.join([operation.__name__, each.__name__, point])
                      for each in self.DISTURBANCES for point in reached]
        return found

    def _play(self, operation, disturbance=None, point=None):
        """Play a case; return whether its point was reached."""
        steps = getattr(self, operation)()
        server = next(steps)

        def disturb():
            getattr(self, disturbance)(server)
            self._assert_separate()

        self.points.begin(point, disturb)
        for _ in steps:
            pass
        was_reached = self.points.end()
        self._assert_separate()
        self._return_hosts()
        if disturbance == 'return_source':
            # If the source was up before the guest had left, Nova ends the
            # guest at the next start.
            self.restart_compute_service(SOURCE)
        for host in self.HOSTS:
            self.assert_exact_leases(host)
        self._assert_separate()
        return was_reached

    def _assert_separate(self):
        for host in self.HOSTS:
            self.assert_separate(host)
        self.assertNotIn(test_leases.REFUSED, self.gate_log.output)

    def _return_hosts(self):
        for host in sorted(self.hosts_down):
            self.host_up(host)
        self.end_orphans()

    def _clean_up(self):
        """Delete all servers; whatever a case has left must go."""
        self.points.end()
        self._return_hosts()
        for server in self.api.get_servers():
            self.delete_server(server)
        self.end_orphans()
        for host in self.HOSTS:
            for _ in range(2):
                self.update_host(host)
