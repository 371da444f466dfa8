# SPDX-License-Identifier: Apache-2.0

"""What happens in the middle of an operation."""

import time

from tests import commands
from tests.explore import operations
from tests.explore import points

_SOURCE, _DESTINATION = operations.SOURCE, operations.DESTINATION
#: Periodic tasks of nova-compute that change or read instances.
_PERIODIC_TASKS = (
    'update_available_resource', '_sync_power_states',
    '_cleanup_running_deleted_instances', '_cleanup_incomplete_migrations',
    '_poll_shelved_instances', '_run_pending_deletes',
    '_check_instance_build_time', '_poll_rebooting_instances',
    '_poll_unconfirmed_resizes')
_DELETE_SECONDS = 2
#: An operation goes on until it ends or blocks: how many points at most, and
#: the end of the name of such a disturbance.
_FAR = 1000
_FAR_END = '_far'
#: After one of these, an operation ends or becomes another one.
ENDING = frozenset((
    'delete_it', 'delete_it_and_create', 'return_source', 'kill_source',
    'kill_destination', 'change_aggregate'))


class Disturbances:
    """The disturbances of an operation on one kind of instance.

    :param cloud: cloud.ExploredCloud
    :param kind: kinds.Kind
    :param server: the server of the operation
    """

    def __init__(self, cloud, kind, server):
        self._cloud = cloud
        self._kind = kind
        self._server = server

    def _recount(self, host):
        if host not in self._cloud.hosts_down:
            self._cloud.recount(host)

    def recount_source(self):
        self._recount(_SOURCE)

    def recount_destination(self):
        self._recount(_DESTINATION)

    def _create_rival(self, host):
        """Take what a recount has freed, if anything."""
        if host not in self._cloud.hosts_down:
            self._cloud.delete_rival(host)
            for _ in range(2):
                self._cloud.recount(host)
            self._cloud.create_rival(self._kind.rival, host)

    def create_at_source(self):
        self._create_rival(_SOURCE)

    def create_at_destination(self):
        self._create_rival(_DESTINATION)

    def delete_it(self):
        server = self._server
        if server['id'] is None:
            server = next(iter(self._cloud.list_servers()), None)
        if server is None:
            return
        self._cloud.request_delete(server)
        # It may have to wait for the operation.
        deadline = time.monotonic() + _DELETE_SECONDS
        while not (self._cloud.is_gone(server) or
                   time.monotonic() > deadline):
            time.sleep(0.1)

    def delete_it_and_create(self):
        """Take the CPUs of the deleted instance, on both hosts."""
        self.delete_it()
        self.create_at_destination()
        self.create_at_source()

    def return_source(self):
        if _SOURCE in self._cloud.hosts_down:
            self._cloud.host_up(_SOURCE)
            self.create_at_destination()

    def kill_source(self):
        self._cloud.restart_killed(_SOURCE)
        self.create_at_source()

    def kill_destination(self):
        self._cloud.restart_killed(_DESTINATION)
        self.create_at_destination()

    def run_periodic_tasks(self):
        for host in self._cloud.HOSTS:
            if host in self._cloud.hosts_down:
                continue
            manager = self._cloud.computes[host].manager
            with self._cloud.host_context(host) as cctxt:
                for task in _PERIODIC_TASKS:
                    getattr(manager, task)(cctxt)

    def audit(self):
        commands.run('audit', '--fix')

    def change_aggregate(self):
        self._cloud.set_aggregate(has_mix=False)
        self.recount_source()
        self.recount_destination()

    def _split(self, host, read, number):
        """Recount a host; let the operation go on before a read of it."""
        if host not in self._cloud.hosts_down:
            with self._cloud.points.splitting(read, number):
                self._cloud.recount(host)


def _add_splits():
    """Add a disturbance for each read of a recount that can be split."""
    for read in points.READS:
        short_name = '.'.join(read.split('.')[-2:])
        word = short_name.rpartition('.')[2].strip('_')
        for where, host in (('source', _SOURCE),
                            ('destination', _DESTINATION)):
            for end, number in (('', 1), (_FAR_END, _FAR)):
                def split(self, host=host, read=short_name, number=number):
                    self._split(host, read, number)

                setattr(Disturbances, 'split_%s_%s%s' % (where, word, end),
                        split)


_add_splits()


def list_names():
    """Return the names of all disturbances, a list."""
    return [name for name in vars(Disturbances) if not name.startswith('_')]


def is_far(name):
    """Return whether a disturbance lets the operation go on to its end."""
    return name.endswith(_FAR_END)


def get_victim(name):
    """Return the host whose nova-compute a disturbance kills, or None."""
    return {'kill_source': _SOURCE, 'kill_destination': _DESTINATION}.get(name)
