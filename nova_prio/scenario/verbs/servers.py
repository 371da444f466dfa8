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

"""Verbs for servers that begin, end and pause."""

from nova_prio.scenario import schema
from nova_prio.scenario.verbs import base


class Create(base.Verb):
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


class Delete(base.OneServer):
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


class Shelve(base.OneServer):
    """Shelve one server and take it off its host."""

    name = 'shelve'
    done = 'shelved'

    def works(self, args, player):
        """Shelve it."""
        return player.change(
            args['server'], {'shelve': None}, 'SHELVED_OFFLOADED')


class Unshelve(base.OneServer):
    """Bring a shelved server back to a host."""

    name = 'unshelve'
    done = 'active'

    def works(self, args, player):
        """Unshelve it."""
        return player.change(args['server'], {'unshelve': None}, 'ACTIVE')


class Start(base.OneServer):
    """Start a server that is stopped, as it is after an evacuation."""

    name = 'start'
    done = 'active'
    vacates = False

    def works(self, args, player):
        """Start it."""
        return player.change(args['server'], {'os-start': None}, 'ACTIVE')
