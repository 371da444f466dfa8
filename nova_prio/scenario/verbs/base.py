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

"""What all verbs have in common, and the names that their steps use."""

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
    names; ``servers`` is the set of those created and not deleted yet,
    ``down`` that of the hosts that are down.
    """

    def __init__(self, flavors=(), images=(), hosts=(), groups=()):
        self.flavors = flavors
        self.images = images
        self.hosts = hosts
        self.groups = groups
        self.servers = set()
        self.down = set()

    def unknown(self, args, key, kind, known):
        """Yield (key, sentence) where a key names something unknown."""
        if key in args and args[key] not in known:
            yield key, '%r is no %s; allowed are %s' % (
                args[key], kind,
                ', '.join(sorted(set(known))) or 'none, there are none')


class OneServer(Verb):
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
