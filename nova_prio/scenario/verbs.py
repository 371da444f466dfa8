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

"""The steps that a scenario can take.

A verb is one class in :data:`VERBS`: which keys its step may have, what has
to exist before, and which calls of the player it makes. A new verb is a new
class; nothing else has to change.
"""

from nova_prio.scenario import schema


class Verb:
    """What one kind of step allows and does.

    ``properties`` are the rules of its keys, ``required`` the keys that have
    to be there, ``outcomes`` what a step may expect; ``vacates`` says whether
    a server may leave a host.
    """

    properties = {}
    required = ()
    outcomes = ()
    vacates = False

    def check(self, args, names):
        """Yield (key, sentence) for each reference that leads nowhere.

        :param args: dict, the keys of the step as they were written
        :param names: :class:`Names` before the step, brought up to date
        """
        raise NotImplementedError()

    def title(self, args):
        """Return what the step does, for the progress line."""
        raise NotImplementedError()

    def deed(self, args):
        """Return what the step does to a server, without its name."""
        raise NotImplementedError()

    def play(self, args, player):
        """Do it.

        :param args: dict, the keys of the step with their defaults
        :param player: nova_prio.scenario.player.Player
        :returns: list of outcomes, one per server that the step is about
        """
        raise NotImplementedError()


class Names:
    """What a scenario has defined, and the servers there are so far.

    ``flavors``, ``images``, ``hosts`` and ``groups`` are collections of
    names; ``servers`` is the set of those created and not deleted yet.
    """

    def __init__(self, flavors=(), images=(), hosts=(), groups=()):
        self.flavors = flavors
        self.images = images
        self.hosts = hosts
        self.groups = groups
        self.servers = set()

    def unknown(self, args, key, kind, known):
        """Yield (key, sentence) where a key names something unknown."""
        if key in args and args[key] not in known:
            yield key, '%r is no %s; allowed are %s' % (
                args[key], kind,
                ', '.join(sorted(set(known))) or 'none, there are none')


class Create(Verb):
    """Create servers, one after the other or all with one request."""

    properties = {
        'name': schema.NAME,
        'count': schema.COUNT,
        'multi': dict(schema.BOOLEAN, default=False),
        'flavor': schema.NAME,
        'image': schema.NAME,
        'hint': schema.PRIORITY,
        'group': schema.NAME,
        'host': schema.NAME,
        'force': dict(schema.BOOLEAN, default=False),
    }
    required = ('name', 'flavor')
    outcomes = ('active', 'refused')

    @staticmethod
    def servers(args):
        """Return the names of the servers: NAME, or NAME-1 to NAME-COUNT."""
        count = args.get('count') or 1
        if count == 1:
            return [args['name']]
        return ['%s-%d' % (args['name'], number + 1)
                for number in range(count)]

    def check(self, args, names):
        """Yield what is unknown, and names that are taken."""
        yield from names.unknown(args, 'flavor', 'flavor', names.flavors)
        yield from names.unknown(args, 'image', 'image', names.images)
        yield from names.unknown(args, 'group', 'server group', names.groups)
        yield from names.unknown(args, 'host', 'host', names.hosts)
        if args.get('force') and 'host' not in args:
            yield 'force', 'true needs the key host'
        for server in self.servers(args):
            if server in names.servers:
                yield 'name', '%r is taken already' % server
            names.servers.add(server)

    def title(self, args):
        """Return the servers, their flavor and what else they ask for."""
        servers = self.servers(args)
        title = 'create %s' % servers[0]
        if len(servers) > 1:
            title += ' to %s' % servers[-1]
        details = [args['flavor']]
        details += ['%s %s' % (word, args[key]) for key, word in (
            ('image', 'image'), ('hint', 'hint'), ('group', 'group'),
            ('host', 'on')) if args[key]]
        return '%s (%s)' % (title, ', '.join(details))

    def deed(self, args):
        """Return the verb alone."""
        return 'create'

    def play(self, args, player):
        """Create them and return what became of each."""
        servers = self.servers(args)
        if args['multi'] and len(servers) > 1:
            return player.create(servers, args)
        return [outcome for server in servers
                for outcome in player.create([server], args)]


class _OneServer(Verb):
    """A verb about one server; ``done`` is how it ends when it works."""

    properties = {'server': schema.NAME}
    required = ('server',)
    vacates = True
    name = done = None

    @property
    def outcomes(self):
        """What the step may expect."""
        return self.done, 'refused'

    def check(self, args, names):
        """Yield where no step before has created the server."""
        yield from names.unknown(
            args, 'server', 'server at this step', names.servers)

    def title(self, args):
        """Return the verb, the server, and the rest."""
        return '%s %s%s' % (self.name, args['server'], self.rest(args))

    def deed(self, args):
        """Return the verb and the rest."""
        return self.name + self.rest(args)

    def rest(self, args):
        """Return what follows the server's name in a title."""
        return ''

    def play(self, args, player):
        """Do it and return what became of the server."""
        return [self.done if self.works(args, player) else 'refused']

    def works(self, args, player):
        """Do it; return whether Nova let it happen."""
        raise NotImplementedError()


class Delete(_OneServer):
    """Delete one server."""

    name = 'delete'
    done = 'deleted'

    def check(self, args, names):
        """Yield where no step before has created the server."""
        yield from super().check(args, names)
        names.servers.discard(args['server'])

    def works(self, args, player):
        """Delete it."""
        return player.delete(args['server'])


class Resize(_OneServer):
    """Resize one server to another flavor, and confirm or revert it."""

    properties = {
        **_OneServer.properties,
        'flavor': schema.NAME,
        'revert': dict(schema.BOOLEAN, default=False),
    }
    required = ('server', 'flavor')
    name = 'resize'
    done = 'resized'

    def check(self, args, names):
        """Yield what is unknown."""
        yield from super().check(args, names)
        yield from names.unknown(args, 'flavor', 'flavor', names.flavors)

    def rest(self, args):
        """Return the new flavor, and whether that stays."""
        return ' to %s%s' % (
            args['flavor'], ', and revert it' if args['revert'] else '')

    def works(self, args, player):
        """Resize it, and confirm or revert that."""
        server = args['server']
        return player.change(
            server,
            {'resize': {'flavorRef': player.flavor(args['flavor'])}},
            'VERIFY_RESIZE') and player.change(
            server,
            {'revertResize' if args['revert'] else 'confirmResize': None},
            'ACTIVE')


class Shelve(_OneServer):
    """Shelve one server and take it off its host."""

    name = 'shelve'
    done = 'shelved'

    def works(self, args, player):
        """Shelve it."""
        return player.change(
            args['server'], {'shelve': None}, 'SHELVED_OFFLOADED')


class Unshelve(_OneServer):
    """Bring a shelved server back to a host."""

    name = 'unshelve'
    done = 'active'

    def works(self, args, player):
        """Unshelve it."""
        return player.change(args['server'], {'unshelve': None}, 'ACTIVE')


VERBS = {'create': Create(), **{
    verb.name: verb for verb in (Delete(), Resize(), Shelve(), Unshelve())}}


def step_rules():
    """Return the schema of one step: one verb, and what it is to end as."""
    keys = {name: schema.mapping(verb.properties, verb.required)
            for name, verb in VERBS.items()}
    keys['expect'] = schema.TEXT
    return schema.mapping(keys, [])
