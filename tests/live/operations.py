# SPDX-License-Identifier: Apache-2.0

"""Random operations on servers of all classes, by several users at once.

Each user has its own random generator and its own servers. A seed therefore
determines the draws of each user. The operation that follows from a draw also
depends on the state of the server at that time.
"""

import collections
import concurrent.futures
import itertools
import random
import threading
import typing

import keystoneauth1.exceptions
import openstack.exceptions
import tenacity

from tests.live import catalog
from tests.live import load

#: Number of users, and maximum number of servers of each user.
USERS, MAX_SERVERS = 4, 3
#: A server that still has a task after these seconds is stuck.
SECONDS = 180
DELETED, STUCK, REFUSED = 'DELETED', 'stuck', 'refused: '
#: Outcome of a move that leaves the server on its host. Nova reports no error.
UNMOVED = REFUSED + 'it has not moved'
#: Exceptions of a request that the cloud refuses, or cannot answer.
REFUSALS = (openstack.exceptions.SDKException,
            keystoneauth1.exceptions.ClientException)

#: Status -> operations on a server with this status. An operation that is
#: listed twice is drawn twice as often. With any other status, the server is
#: deleted.
ALLOWED = {
    'ACTIVE': ('delete', 'stop', 'reboot', 'resize', 'resize', 'migrate',
               'live_migrate', 'live_migrate', 'shelve', 'rebuild', 'pause'),
    'SHUTOFF': ('delete', 'start', 'resize', 'migrate', 'rebuild'),
    'VERIFY_RESIZE': ('confirm', 'revert'),
    'SHELVED_OFFLOADED': ('delete', 'unshelve', 'unshelve'),
    'PAUSED': ('delete', 'unpause'),
}
#: Operations that create a guest, move it to another host, or end such a move.
GUEST_CHANGES = {'create', 'resize', 'migrate', 'live_migrate', 'confirm',
                 'revert'}
#: Operations that move a server to another host.
MOVES = {'resize', 'migrate', 'live_migrate'}
#: Statuses that end by themselves, even if the server has no task.
TRANSIENT = {'BUILD', 'SHELVED'}

#: Hints of a create: none, a priority, or the policy of a group of the user.
HINTS = ('', '', '', 'high', 'low', 'soft-affinity', 'soft-anti-affinity')
POLICIES = HINTS[-2:]

#: One operation: the number of the user, the number of the operation, the name
#: of the operation, the name of the server, the Drawn, and the outcome. The
#: outcome is the status of the server, DELETED, STUCK, or why it was refused.
Step = collections.namedtuple('Step', 'user number name server drawn outcome')


class Drawn(typing.NamedTuple):
    """The flavor and hint of a create; a resize uses only the flavor."""

    flavor: str
    hint: str

    def __str__(self):
        return ' '.join(filter(None, self))


class Users:
    """Context during which users operate on their servers in threads.

    The context can be entered several times. The servers exist until
    ``delete_all``.
    """

    def __init__(self, layout, seed, number=USERS, say=print):
        """Create the users; no operation begins yet.

        :param seed: str or int; determines the draws of the users
        :param number: number of users
        :param say: function that prints a line for each operation
        """
        self.steps = []
        self._say = say
        self._over = threading.Event()
        self._stepped = threading.Condition()
        self._users = [_User(layout, seed, each) for each in range(number)]

    def __enter__(self):
        self._over.clear()
        self._pool = concurrent.futures.ThreadPoolExecutor(len(self._users))
        self._running = [self._pool.submit(self._operate, user)
                         for user in self._users]
        return self

    def __exit__(self, *exc_info):
        self._over.set()
        self._pool.shutdown()
        for each in self._running:
            each.result()

    def _operate(self, user):
        while not self._over.is_set():
            step = user.operate()
            self._say('user %d, step %d: %s %s (%s): %s' % step)
            with self._stepped:
                self.steps.append(step)
                self._stepped.notify_all()

    def wait_for_steps(self, number):
        """Wait until more operations are done.

        :param number: number of operations
        :raises RuntimeError: if they are not done after twice SECONDS
        """
        with self._stepped:
            target = len(self.done) + number
            if not self._stepped.wait_for(
                    lambda: len(self.done) >= target, 2 * SECONDS):
                raise RuntimeError('%d operations are not done.' % (
                    target - len(self.done)))

    @property
    def done(self):
        """The operations that were neither refused nor failed."""
        return [step for step in self.steps if step.outcome != 'ERROR' and
                not step.outcome.startswith(REFUSED)]

    @property
    def server_errors(self):
        """The operations that a service answered with a server error."""
        return [step for step in self.steps if 'Server Error' in step.outcome]

    @property
    def stuck(self):
        """The operations that did not end within SECONDS."""
        return [step for step in self.steps if step.outcome == STUCK]

    @property
    def failed_or_stuck(self):
        """UUIDs of servers whose create or move failed or got stuck.

        Servers that are deleted by now are included.
        """
        return set().union(*(user.failed_or_stuck for user in self._users))

    @property
    def lost(self):
        """Names of servers that disappeared without a delete request."""
        return [name for user in self._users for name in user.lost]

    @property
    def server_names(self):
        """The names of the servers of all users."""
        return [name for user in self._users for name in user.servers]

    def confirm(self):
        """Confirm all resizes; return the UUIDs of the servers."""
        with concurrent.futures.ThreadPoolExecutor(len(self._users)) as pool:
            steps = sum(pool.map(_User.confirm, self._users), [])
        self.steps += steps
        return {user.servers[step.server] for step in steps
                for user in self._users if step.server in user.servers}

    def delete_all(self):
        """Delete all servers and server groups of the users."""
        self._delete(lambda user: user.servers)
        for user in self._users:
            user.delete_groups()

    def delete_stuck(self):
        """Delete the stuck servers and return their names.

        Wait for all other servers first: a server without a task may get a
        task later that never ends.
        """
        return [step.server for step in self._delete(_User.find_stuck)]

    def _delete(self, select):
        """Delete servers of each user and return the steps.

        :param select: function, _User -> names of servers
        """
        with concurrent.futures.ThreadPoolExecutor(len(self._users)) as pool:
            steps = sum(pool.map(
                lambda user: user.delete(select(user)), self._users), [])
        self.steps += steps
        return steps


class _User:
    """One user, its random generator and its servers."""

    def __init__(self, layout, seed, user):
        self._random = random.Random('%s %s' % (seed, user))
        self._user = user
        connection = catalog.connect(layout)
        self._compute = connection.compute
        self._image = connection.image.find_image('guest').id
        self._flavors = {name: self._compute.find_flavor(name).id
                         for name in load.FLAVORS}
        self._groups = {policy: self._compute.create_server_group(
            name='user%d' % user, policy=policy).id for policy in POLICIES}
        self._numbers = itertools.count(1)
        self._names = ('user%d-%d' % (user, each)
                       for each in itertools.count(1))
        #: Name -> UUID.
        self.servers = {}
        #: Names of servers whose operation did not end.
        self.stuck = set()
        self.failed_or_stuck = set()
        #: Names of servers that disappeared without a delete request.
        self.lost = set()
        #: Names of servers that the user asked to delete.
        self._delete_requested = set()

    def operate(self):
        """Start a random operation, wait for its end, and return the Step."""
        # Always draw four values: the later draws must not depend on the state
        # of a server.
        place, share = self._random.random(), self._random.random()
        drawn = Drawn(self._random.choice(list(self._flavors)),
                      self._random.choice(HINTS))
        position = int(place * MAX_SERVERS)
        if position >= len(self.servers):
            server = next(self._names)
            return self._step('create', server, drawn)
        server = list(self.servers)[position]
        try:
            found = self._compute.get_server(self.servers[server])
        except openstack.exceptions.NotFoundException:
            self._forget(server)
            return self._new_step('show', server, drawn, DELETED)
        except REFUSALS as error:
            return self._new_step('show', server, drawn, _refused(error))
        names = ALLOWED.get(found.status, ('delete',))
        return self._step(names[int(share * len(names))], server, drawn)

    def find_stuck(self):
        """Wait for all servers and return the names of the stuck ones.

        A server in ERROR without a fault also counts as stuck.
        """
        for server in set(self.servers) - self.stuck:
            try:
                status = self._wait(server, 'show')
                if status == DELETED:
                    self._forget(server)
                elif status == 'ERROR' and not self._compute.get_server(
                        self.servers[server]).fault:
                    self.stuck.add(server)
            except tenacity.RetryError:
                self.stuck.add(server)
        return self.stuck

    def confirm(self):
        """Confirm all resizes; return the steps."""
        return [self._step('confirm', name, Drawn('', ''))
                for name, uuid in list(self.servers.items())
                if 'VERIFY_RESIZE' == self._compute.get_server(uuid).status]

    def delete(self, servers):
        """Delete servers of the user and return the steps.

        :param servers: names
        """
        return [self._step('delete', server, Drawn('', ''))
                for server in list(servers)]

    def delete_groups(self):
        """Delete the server groups of the user."""
        for group in self._groups.values():
            self._compute.delete_server_group(group)

    def _forget(self, server):
        """Record that a server no longer exists."""
        del self.servers[server]
        self.stuck.discard(server)
        if server not in self._delete_requested:
            self.lost.add(server)

    def _step(self, name, server, drawn):
        """Run an operation by name and return the Step."""
        if name == 'delete':
            self._delete_requested.add(server)
        try:
            source = self._host(server) if name in MOVES else None
            getattr(self, '_' + name)(server, drawn)
            outcome = self._wait(server, name)
            if name in MOVES and outcome not in (DELETED, 'ERROR') and (
                    source == self._host(server)):
                outcome = UNMOVED
        except REFUSALS as error:
            outcome = _refused(error)
        except tenacity.RetryError:
            outcome = STUCK
            self.stuck.add(server)
        if name in GUEST_CHANGES and outcome in (STUCK, 'ERROR'):
            self.failed_or_stuck.add(self.servers[server])
        if outcome == DELETED:
            self._forget(server)
        return self._new_step(name, server, drawn, outcome)

    def _host(self, server):
        return self._compute.get_server(self.servers[server]).compute_host

    def _new_step(self, name, server, drawn, outcome):
        return Step(self._user, next(self._numbers), name, server, drawn,
                    outcome)

    def _wait(self, server, name):
        """Wait until a server is at rest; return its status, or DELETED.

        :param name: name of the operation
        :raises tenacity.RetryError: if the server is not at rest in SECONDS
        """
        # Wrap the function in each call: threads that share a wrapped function
        # share its number of attempts, too.
        return tenacity.retry(
            retry=tenacity.retry_if_result(lambda status: status is None) |
            tenacity.retry_if_exception_type(REFUSALS),
            stop=tenacity.stop_after_delay(SECONDS),
            wait=tenacity.wait_fixed(1))(self._status)(server, name)

    def _status(self, server, name):
        """Return the status of a server, None if it is not at rest."""
        try:
            found = self._compute.get_server(self.servers[server])
        except openstack.exceptions.NotFoundException:
            return DELETED
        is_transient = found.task_state or found.status in TRANSIENT or (
            name == 'confirm' and found.status == 'VERIFY_RESIZE') or (
                # A server in VERIFY_RESIZE that is being deleted has no task
                # for a moment.
                name == 'delete' and found.status != 'ERROR')
        return None if is_transient else found.status

    def _create(self, server, drawn):
        self.servers[server] = self._compute.create_server(
            name=server, flavor_id=self._flavors[drawn.flavor],
            image_id=self._image, networks='none',
            scheduler_hints=self._hints(drawn.hint)).id

    def _hints(self, hint):
        if hint in POLICIES:
            return {'group': self._groups[hint]}
        return {'priority': hint} if hint else {}

    def _resize(self, server, drawn):
        self._compute.resize_server(
            self.servers[server], self._flavors[drawn.flavor])

    def _rebuild(self, server, drawn):
        self._compute.rebuild_server(
            self.servers[server], image=self._image, name=server)

    def _reboot(self, server, drawn):
        self._compute.reboot_server(self.servers[server], 'HARD')

    def _live_migrate(self, server, drawn):
        self._compute.live_migrate_server(
            self.servers[server], block_migration='auto')

    def _confirm(self, server, drawn):
        self._compute.confirm_server_resize(self.servers[server])

    def _revert(self, server, drawn):
        self._compute.revert_server_resize(self.servers[server])

    def __getattr__(self, name):
        """Return an operation such as ``_stop``, which needs only the server.

        :param name: name of a method of the compute proxy, but ``_stop`` for
            ``stop_server``
        """
        act = getattr(self._compute, '%s_server' % name.lstrip('_'))
        return lambda server, drawn: act(self.servers[server])


def _refused(error):
    """Return the outcome of a request that raised an error."""
    return REFUSED + str(error).partition('\n')[0]
