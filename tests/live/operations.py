# SPDX-License-Identifier: Apache-2.0

"""Random operations on servers of all kinds, as several users at once.

Each user draws from numbers of its own and has servers of its own, so that a
seed says what each of them draws, whatever the others do. Which operation that
is depends on the state that its server is in by then.
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

#: Users, and servers that one of them has at most.
USERS, MOST = 4, 3
#: Seconds until a server that Nova works on counts as stuck.
SECONDS = 180
DELETED, STUCK, REFUSED = 'DELETED', 'stuck', 'refused: '
#: Outcome of a move if the server stays on its host: Nova does not report it.
UNMOVED = REFUSED + 'it has not moved'
#: Exceptions of a request that the cloud refuses or cannot accept now.
REFUSALS = (openstack.exceptions.SDKException,
            keystoneauth1.exceptions.ClientException)

#: Status -> what a user may do to a server in it; what is there twice happens
#: twice as often. In any other, it is deleted.
ALLOWED = {
    'ACTIVE': ('delete', 'stop', 'reboot', 'resize', 'resize', 'migrate',
               'live_migrate', 'live_migrate', 'shelve', 'rebuild', 'pause'),
    'SHUTOFF': ('delete', 'start', 'resize', 'migrate', 'rebuild'),
    'VERIFY_RESIZE': ('confirm', 'revert'),
    'SHELVED_OFFLOADED': ('delete', 'unshelve', 'unshelve'),
    'PAUSED': ('delete', 'unpause'),
}
#: What makes guests: a create, or what takes a server from one host to another
#: or ends that.
MAKING = {'create', 'resize', 'migrate', 'live_migrate', 'confirm', 'revert'}
#: Operations that move a server to another host.
MOVES = {'resize', 'migrate', 'live_migrate'}
#: Statuses that a server does not stay in, though it may have no task.
PASSING = {'BUILD', 'SHELVED'}

#: Hints of a create: none, a priority, or a group of the user, by its policy.
HINTS = ('', '', '', 'high', 'low', 'soft-affinity', 'soft-anti-affinity')
POLICIES = HINTS[-2:]

#: One operation: the user's number, its position among those of the user,
#: its name, the server's name, what was drawn, and how it ended: the server's
#: status, DELETED, STUCK, or why the request was refused.
Step = collections.namedtuple('Step', 'user number name server drawn outcome')


class Drawn(typing.NamedTuple):
    """The flavor and the hint of a create; others use the flavor at most."""

    flavor: str
    hint: str

    def __str__(self):
        return ' '.join(filter(None, self))


class Users:
    """Users who operate on servers of their own, beside the body of it.

    Their servers stay until ``leave``; it can be entered again before.
    """

    def __init__(self, layout, seed, number=USERS, say=print):
        """Make them.

        :param seed: int; the same one makes them try the same
        :param say: function that is called with a line on each operation
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
        """Wait until that many more operations are done.

        :raises RuntimeError: if it takes too long
        """
        with self._stepped:
            aim = len(self.done) + number
            if not self._stepped.wait_for(
                    lambda: len(self.done) >= aim, 2 * SECONDS):
                raise RuntimeError('%d operations are not done.' % (
                    aim - len(self.done)))

    @property
    def done(self):
        """The operations that were neither refused nor failed."""
        return [step for step in self.steps if step.outcome != 'ERROR' and
                not step.outcome.startswith(REFUSED)]

    @property
    def unserved(self):
        """The operations that a service had an error of its own at."""
        return [step for step in self.steps if 'Server Error' in step.outcome]

    @property
    def stuck(self):
        """The operations that Nova never ended."""
        return [step for step in self.steps if step.outcome == STUCK]

    @property
    def made_in_vain(self):
        """UUIDs of the servers that Nova did not come to an end with making.

        Those are among them that are deleted.
        """
        return set().union(*(user.made_in_vain for user in self._users))

    @property
    def lost(self):
        """The names of the servers that went and were not to be deleted."""
        return [name for user in self._users for name in user.lost]

    @property
    def left(self):
        """The names of their servers."""
        return [name for user in self._users for name in user.servers]

    def confirm(self):
        """Confirm all resizes; return the UUIDs of the servers."""
        with concurrent.futures.ThreadPoolExecutor(len(self._users)) as pool:
            steps = sum(pool.map(_User.confirm, self._users), [])
        self.steps += steps
        return {user.servers[step.server] for step in steps
                for user in self._users if step.server in user.servers}

    def leave(self):
        """Delete all of their servers, and their groups."""
        self._delete(lambda user: user.servers)
        for user in self._users:
            user.delete_groups()

    def give_up(self):
        """Delete the servers that are stuck; returns their names.

        A server may seem to be at rest and have a task a moment later, which
        Nova does not come to an end with: they are all waited for again.
        """
        return [step.server for step in self._delete(_User.still_stuck)]

    def _delete(self, which):
        with concurrent.futures.ThreadPoolExecutor(len(self._users)) as pool:
            steps = sum(pool.map(
                lambda user: user.delete(which(user)), self._users), [])
        self.steps += steps
        return steps


class _User:

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
        #: Names of those that Nova did not come to an end with.
        self.stuck = set()
        self.made_in_vain = set()
        #: Names of those that are gone and were not to be deleted.
        self.lost = set()
        self._unwanted = set()

    def operate(self):
        """Try an operation and wait for its end; returns the Step."""
        # As many draws each time, whatever becomes of them.
        place, share = self._random.random(), self._random.random()
        drawn = Drawn(self._random.choice(list(self._flavors)),
                      self._random.choice(HINTS))
        position = int(place * MOST)
        if position >= len(self.servers):
            server = next(self._names)
            return self._step('create', server, drawn)
        server = list(self.servers)[position]
        try:
            found = self._compute.get_server(self.servers[server])
        except openstack.exceptions.NotFoundException:
            self._note_gone(server)
            return self._made('look', server, drawn, DELETED)
        except REFUSALS as error:
            return self._made('look', server, drawn, _refused(error))
        names = ALLOWED.get(found.status, ('delete',))
        return self._step(names[int(share * len(names))], server, drawn)

    def still_stuck(self):
        """Wait for all servers; returns the names of those that are stuck.

        So are those that Nova gave up itself, and does not say why.
        """
        for server in set(self.servers) - self.stuck:
            try:
                status = self._wait(server, 'look')
                if status == DELETED:
                    self._note_gone(server)
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
        """Delete servers of the user, by name; returns the steps."""
        return [self._step('delete', server, Drawn('', ''))
                for server in list(servers)]

    def delete_groups(self):
        """Delete the groups that hints may name."""
        for group in self._groups.values():
            self._compute.delete_server_group(group)

    def _note_gone(self, server):
        del self.servers[server]
        self.stuck.discard(server)
        if server not in self._unwanted:
            self.lost.add(server)

    def _step(self, name, server, drawn):
        if name == 'delete':
            self._unwanted.add(server)
        try:
            home = self._host(server) if name in MOVES else None
            getattr(self, '_' + name)(server, drawn)
            outcome = self._wait(server, name)
            if name in MOVES and outcome not in (DELETED, 'ERROR') and (
                    home == self._host(server)):
                outcome = UNMOVED
        except REFUSALS as error:
            outcome = _refused(error)
        except tenacity.RetryError:
            outcome = STUCK
            self.stuck.add(server)
        if name in MAKING and outcome in (STUCK, 'ERROR'):
            self.made_in_vain.add(self.servers[server])
        if outcome == DELETED:
            self._note_gone(server)
        return self._made(name, server, drawn, outcome)

    def _host(self, server):
        return self._compute.get_server(self.servers[server]).compute_host

    def _made(self, *words):
        return Step(self._user, next(self._numbers), *words)

    def _wait(self, server, name):
        """Return the status of a server at rest, or DELETED.

        :raises tenacity.RetryError: if it takes too long
        """
        # Each call retries for itself: what tenacity counts of a function is
        # shared by all threads that call it.
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
        is_passing = found.task_state or found.status in PASSING or (
            name == 'confirm' and found.status == 'VERIFY_RESIZE') or (
                # One that waits for its resize to be confirmed has none for a
                # moment.
                name == 'delete' and found.status != 'ERROR')
        return None if is_passing else found.status

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
        """Return what only needs the server, such as ``_stop``."""
        act = getattr(self._compute, '%s_server' % name.lstrip('_'))
        return lambda server, drawn: act(self.servers[server])


def _refused(error):
    return REFUSED + str(error).partition('\n')[0]
