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

"""Verbs for hosts."""

from nova_prio.scenario import schema
from nova_prio.scenario.verbs import base


class _OneHost(base.Verb):
    """A verb about one host; ``done`` is how it ends."""

    properties = {'host': schema.NAME}
    required = ('host',)
    name = done = None

    @property
    def outcomes(self):
        """What the step may expect."""
        return (self.done,)

    def check(self, args, names):
        """Yield where there is no such host."""
        yield from names.unknown(args, 'host', 'host', names.hosts)

    def title(self, args):
        """Return the verb and the host."""
        return '%s %s' % (self.name, args['host'])

    def deed(self, args):
        """Return the verb alone."""
        return self.name


class HostDown(_OneHost):
    """Let a host fail, and tell Nova so."""

    name = 'host-down'
    done = 'down'

    def check(self, args, names):
        """Yield where there is no such host, or it is down already."""
        yield from super().check(args, names)
        if args['host'] in names.down:
            yield 'host', '%r is down already' % args['host']
        names.down.add(args['host'])

    def play(self, args, player):
        """Stop its nova-compute and force it down."""
        player.host_down(args['host'])
        return [self.done]


class HostUp(_OneHost):
    """Let a host that is down come back."""

    name = 'host-up'
    done = 'up'

    def check(self, args, names):
        """Yield where there is no such host, or it is up."""
        yield from super().check(args, names)
        if args['host'] in names.hosts and args['host'] not in names.down:
            yield 'host', '%r is not down at this step' % args['host']
        names.down.discard(args['host'])

    def play(self, args, player):
        """Start its nova-compute and take the force back."""
        player.host_up(args['host'])
        return [self.done]
