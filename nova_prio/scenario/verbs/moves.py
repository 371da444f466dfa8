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

"""Verbs for servers that change their host, their flavor, or both."""

from nova_prio.scenario import schema
from nova_prio.scenario.verbs import base


class Confirm(base.OneServer):
    """Confirm a resize or migration that waits for it."""

    name = 'confirm'
    done = 'confirmed'

    def works(self, args, player):
        """Confirm it."""
        return player.change(
            args['server'], {'confirmResize': None}, 'ACTIVE', 'confirmed')


class Revert(base.OneServer):
    """Revert a resize or migration that waits to be confirmed."""

    name = 'revert'
    done = 'reverted'

    def works(self, args, player):
        """Revert it."""
        return player.change(
            args['server'], {'revertResize': None}, 'ACTIVE', 'reverted')


class _ToConfirm(base.OneServer):
    """A change that Nova wants to have confirmed or reverted."""

    properties = {
        **base.OneServer.properties,
        'confirm': dict(schema.BOOLEAN, default=True),
        'revert': dict(schema.BOOLEAN, default=False),
    }

    def check(self, args, names):
        """Yield what is unknown, and an end that contradicts itself."""
        yield from super().check(args, names)
        if args.get('revert') and args.get('confirm') is False:
            yield 'revert', 'true contradicts confirm, which is false'

    def rest(self, args):
        """Return how it ends, where it is not confirmed."""
        if args['revert']:
            return ', and revert it'
        return '' if args['confirm'] else ', to be confirmed'

    def action(self, args, player):
        """Return the action that begins it, as the API wants it."""
        raise NotImplementedError()

    def works(self, args, player):
        """Do it, and confirm or revert it unless that is left to a step."""
        if not player.change(args['server'], self.action(args, player),
                             'VERIFY_RESIZE', 'finished'):
            return False
        if args['revert']:
            return Revert().works(args, player)
        return not args['confirm'] or Confirm().works(args, player)


class _ToHost(base.OneServer):
    """A move to a host, which the scheduler finds where none is named."""

    properties = {**base.OneServer.properties, 'host': schema.NAME}

    def check(self, args, names):
        """Yield what is unknown."""
        yield from super().check(args, names)
        yield from names.unknown(args, 'host', 'host', names.hosts)

    def rest(self, args):
        """Return the host, if one is named, and what else there is to say."""
        to_host = ' to %s' % args['host'] if args['host'] else ''
        return to_host + super().rest(args)


class Resize(_ToConfirm):
    """Resize one server to another flavor."""

    properties = {**_ToConfirm.properties, 'flavor': schema.NAME}
    required = ('server', 'flavor')
    name = 'resize'
    done = 'resized'

    def check(self, args, names):
        """Yield what is unknown, and an end that contradicts itself."""
        yield from super().check(args, names)
        yield from names.unknown(args, 'flavor', 'flavor', names.flavors)

    def rest(self, args):
        """Return the new flavor, and whether that stays."""
        return ' to %s%s' % (args['flavor'], super().rest(args))

    def action(self, args, player):
        """Return the action ``resize``."""
        return {'resize': {'flavorRef': player.flavor(args['flavor'])}}


class Migrate(_ToHost, _ToConfirm):
    """Move one server to another host, for which it is stopped."""

    properties = {**_ToHost.properties, **_ToConfirm.properties}
    name = 'migrate'
    done = 'migrated'

    def action(self, args, player):
        """Return the action ``migrate``."""
        return {'migrate': {'host': args['host']} if args['host'] else None}


class LiveMigrate(_ToHost):
    """Move one server to another host while it runs."""

    name = 'live-migrate'
    done = 'migrated'

    def works(self, args, player):
        """Migrate it."""
        return player.change(
            args['server'],
            {'os-migrateLive': {'host': args['host'],
                                'block_migration': 'auto'}},
            'ACTIVE', 'completed')


class Evacuate(_ToHost):
    """Build one server anew on another host, since its own is down.

    Nova leaves it stopped; one that was in error before runs.
    """

    name = 'evacuate'
    done = 'evacuated'
    vacates = False

    def works(self, args, player):
        """Evacuate it."""
        return player.change(
            args['server'],
            {'evacuate': {'host': args['host']} if args['host'] else {}},
            None, 'done')
