# SPDX-License-Identifier: Apache-2.0

"""The verbs of a scenario's steps; pure. A new verb is an entry of VERBS.

If its server action has parameters, :func:`build_action` adds them.

A step is one operation of a user or an operator, such as "resize server db".
Its verb is the kind of the operation. The ``args`` of a step are a dict, key
of the step to its value. The keys are those of ``Verb.properties``.
"""

import dataclasses

from nova_prio_scenario import schema

#: Key of a step to the kind of object that its value must name.
REFERENCES = {'server': 'server at this step', 'flavor': 'flavor',
              'image': 'image', 'group': 'server group', 'host': 'host'}


@dataclasses.dataclass(frozen=True)
class Verb:
    """One kind of step.

    ``properties`` is a dict, key of the step to its rule (see ``schema``).
    ``outcomes`` are the values that ``expect`` may have; the first one means
    that the step worked. ``action`` is the name of a server action in Nova's
    API; None if the step is no server action. The action has worked if the
    server then has ``status`` and its newest migration the status
    ``migration``; None stands for any status.
    """

    properties: dict
    outcomes: tuple
    action: str | None = None
    status: str | None = None
    migration: str | None = None


def _server_verb(outcome, action=None, status=None, migration=None, **more):
    """Return a verb about one server, which Nova may refuse.

    :param outcome: what the server is if the step worked
    :param action: as in :class:`Verb`, None for no server action
    :param status: as in :class:`Verb`, None for any
    :param migration: as in :class:`Verb`, None for any
    :param more: dict, the rules of the other keys
    """
    properties = {'server': schema.NAME}
    properties.update(more)
    return Verb(properties=properties, outcomes=(outcome, 'refused'),
                action=action, status=status, migration=migration)


_OPTIONAL_NAME = dict(schema.NAME, default=None)
_OFF = dict(schema.BOOLEAN, default=False)
_ON = dict(schema.BOOLEAN, default=True)

#: The options that host-change can change, key to rule.
CHANGES = {'dedicated': schema.CPU_SET, 'shared': schema.CPU_SET,
           'ratio': schema.RATIO, 'mix': dict(schema.BOOLEAN, default=None)}

_HOST = {'host': schema.NAME}
_CREATE = {
    'name': schema.NAME, 'count': schema.COUNT, 'multi': _OFF,
    'flavor': schema.NAME, 'image': _OPTIONAL_NAME, 'hint': schema.PRIORITY,
    'group': _OPTIONAL_NAME, 'host': _OPTIONAL_NAME, 'force': _OFF,
}

#: Name to Verb. The keys confirm and revert tell how a resize or a migration
#: ends.
VERBS = {
    'create': Verb(properties=_CREATE, outcomes=('active', 'refused')),
    'delete': _server_verb('deleted'),
    'resize': _server_verb(
        'resized', action='resize', status='VERIFY_RESIZE',
        migration='finished', confirm=_ON, revert=_OFF, flavor=schema.NAME),
    'migrate': _server_verb(
        'migrated', action='migrate', status='VERIFY_RESIZE',
        migration='finished', host=_OPTIONAL_NAME, confirm=_ON, revert=_OFF),
    'confirm': _server_verb(
        'confirmed', action='confirmResize', migration='confirmed'),
    'revert': _server_verb(
        'reverted', action='revertResize', migration='reverted'),
    'live-migrate': _server_verb(
        'migrated', action='os-migrateLive', status='ACTIVE',
        migration='completed', host=_OPTIONAL_NAME),
    'shelve': _server_verb(
        'shelved', action='shelve', status='SHELVED_OFFLOADED'),
    'unshelve': _server_verb('active', action='unshelve', status='ACTIVE'),
    'host-down': Verb(properties=_HOST, outcomes=('down',)),
    # Nova leaves the server stopped, unless it was in ERROR before.
    'evacuate': _server_verb(
        'evacuated', action='evacuate', migration='done', host=_OPTIONAL_NAME),
    'stop': _server_verb('stopped', action='os-stop', status='SHUTOFF'),
    'start': _server_verb('active', action='os-start', status='ACTIVE'),
    'reboot': _server_verb(
        'active', action='reboot', status='ACTIVE', hard=_OFF),
    'host-up': Verb(properties=_HOST, outcomes=('up',)),
    'host-disable': Verb(properties=_HOST, outcomes=('disabled',)),
    'host-enable': Verb(properties=_HOST, outcomes=('enabled',)),
    'host-drain': Verb(properties=_HOST, outcomes=('drained', 'refused')),
    'host-change': Verb(properties=_HOST | CHANGES,
                        outcomes=('changed', 'refused')),
}


def build_action(name, args, flavors):
    """Return the body of the request for a server action.

    :param name: name of a verb with an action
    :param args: dict, the args of the step
    :param flavors: dict, name of a flavor to its id
    """
    parameters = None
    if name == 'resize':
        parameters = {'flavorRef': flavors[args['flavor']]}
    elif name == 'reboot':
        kind = 'HARD' if args['hard'] else 'SOFT'
        parameters = {'type': kind}
    elif name == 'live-migrate':
        parameters = {'host': args['host'], 'block_migration': 'auto'}
    elif args.get('host'):
        # Without a host, the scheduler chooses the destination.
        parameters = {'host': args['host']}
    elif name == 'evacuate':
        parameters = {}
    return {VERBS[name].action: parameters}


def list_servers(args):
    """Return the names of the new servers: NAME, or NAME-1 to NAME-COUNT.

    :param args: dict, the args of a step ``create``
    """
    count = args.get('count', 1)
    if count == 1:
        return [args['name']]
    return ['%s-%d' % (args['name'], number) for number in range(1, count + 1)]


@dataclasses.dataclass(frozen=True)
class ScenarioStep:
    """One step of a scenario.

    ``name`` is the name of its verb, ``args`` a dict of all keys of the verb
    with their defaults, and ``expect`` the expected outcome or None.
    """

    name: str
    args: dict
    expect: str | None

    @property
    def title(self):
        """The step with the names of its servers or host, as text."""
        if self.name == 'create':
            return self._get_create_title()
        target = self.args.get('server') or self.args['host']
        details = self._get_details() or self._get_changes()
        return '%s %s%s' % (self.name, target, details)

    def _get_create_title(self):
        """Return a step ``create`` with the names of its servers, as text."""
        args = self.args
        servers = list_servers(args)
        names = servers[0]
        if len(servers) > 1:
            names = '%s to %s' % (servers[0], servers[-1])
        details = [args['flavor']]
        for key, word in (('image', 'image'), ('hint', 'hint'),
                          ('group', 'group'), ('host', 'on')):
            if args[key]:
                details.append('%s %s' % (word, args[key]))
        return 'create %s (%s)' % (names, ', '.join(details))

    @property
    def short_title(self):
        """The step without the names of its servers, as text."""
        return self.name + self._get_details()

    def _get_details(self):
        """Return the target and the end of a move, or the kind of reboot."""
        if 'server' not in self.args:
            return ''
        if self.args.get('hard'):
            return ' (hard)'
        target = self.args.get('flavor') or self.args.get('host')
        text = ' to ' + target if target else ''
        if self.args.get('revert'):
            return text + ', and revert it'
        if self.args.get('confirm') is False:
            return text + ', to be confirmed'
        return text

    def _get_changes(self):
        """Return the changed options of a host, as text."""
        changes = ', '.join(
            '%s %s' % (key, str(value).lower())
            for key, value in list_changes(self.args).items())
        return ' (%s)' % changes if changes else ''


def list_changes(args):
    """Return the options that a step changes, a dict, option to value.

    :param args: dict, the keys of a step about a host
    """
    return {key: args[key] for key in CHANGES if args.get(key) is not None}


def check(name, args, names):
    """Yield (key, sentence) for each wrong value of a step.

    A value is wrong if it names an object that does not exist after the steps
    before, or if it contradicts another value.

    :param name: name of the verb
    :param args: dict, the keys of the step in the file
    :param names: dict, key of REFERENCES to the set of existing names, and
        'down' to the names of the hosts that are down; the step updates it
    """
    for key, kind in REFERENCES.items():
        if key in args and args[key] not in names[key]:
            allowed = ', '.join(sorted(names[key])) or 'none'
            yield key, '%r is no known %s; allowed: %s' % (
                args[key], kind, allowed)
    if args.get('revert') and args.get('confirm') is False:
        yield 'revert', 'true contradicts confirm: false'
    if args.get('force') and 'host' not in args:
        yield 'force', 'true needs the key host'
    if name == 'create':
        for server in list_servers(args):
            if server in names['server']:
                yield 'name', '%r is already used' % server
            names['server'].add(server)
    elif name == 'delete':
        names['server'].discard(args['server'])
    elif name == 'host-down':
        if args['host'] in names['down']:
            yield 'host', '%r is already down' % args['host']
        names['down'].add(args['host'])
    elif name == 'host-change':
        if args['host'] in names['down']:
            yield 'host', '%r is down at this step' % args['host']
        if not list_changes(args):
            yield 'host', '%r has no change; give one or more of %s' % (
                args['host'], ', '.join(CHANGES))
    elif name == 'host-up':
        if args['host'] in names['host'] - names['down']:
            yield 'host', '%r is not down at this step' % args['host']
        names['down'].discard(args['host'])
