# SPDX-License-Identifier: Apache-2.0

"""The verbs of a scenario's steps; pure. A new verb is an entry of VERBS."""

from collections import abc
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
    that the step worked. ``action`` is a function, (args of the step, dict of
    flavor name to id) to the body of a server action. The action has worked if
    the server then has ``status`` and its newest migration the status
    ``migration``; None stands for any status.
    """

    properties: dict
    outcomes: tuple
    action: abc.Callable | None = None
    status: str | None = None
    migration: str | None = None


def _server_verb(outcome, action=None, status=None, migration=None, **more):
    """Return a verb about one server, which Nova may refuse.

    :param more: the rules of the other keys
    """
    return Verb({'server': schema.NAME, **more}, (outcome, 'refused'),
                action, status, migration)


def _to_host(args):
    """Return the parameters of a move; None lets the scheduler choose."""
    return {'host': args['host']} if args['host'] else None


_OPTIONAL_NAME = dict(schema.NAME, default=None)
_OFF = dict(schema.BOOLEAN, default=False)
#: How a resize or migration ends.
_END = {'confirm': dict(schema.BOOLEAN, default=True), 'revert': _OFF}

#: The options that host-change can change.
CHANGES = {'dedicated': schema.CPU_SET, 'shared': schema.CPU_SET,
           'ratio': schema.RATIO, 'mix': dict(schema.BOOLEAN, default=None)}

#: Name to Verb.
VERBS = {
    'create': Verb(
        {'name': schema.NAME, 'count': schema.COUNT, 'multi': _OFF,
         'flavor': schema.NAME, 'image': _OPTIONAL_NAME,
         'hint': schema.PRIORITY, 'group': _OPTIONAL_NAME,
         'host': _OPTIONAL_NAME, 'force': _OFF}, ('active', 'refused')),
    'delete': _server_verb('deleted'),
    'resize': _server_verb(
        'resized', lambda args, flavors: {
            'resize': {'flavorRef': flavors[args['flavor']]}},
        'VERIFY_RESIZE', 'finished', **_END, flavor=schema.NAME),
    'migrate': _server_verb(
        'migrated', lambda args, flavors: {'migrate': _to_host(args)},
        'VERIFY_RESIZE', 'finished', host=_OPTIONAL_NAME, **_END),
    'confirm': _server_verb(
        'confirmed', lambda *_: {'confirmResize': None}, None, 'confirmed'),
    'revert': _server_verb(
        'reverted', lambda *_: {'revertResize': None}, None, 'reverted'),
    'live-migrate': _server_verb(
        'migrated', lambda args, flavors: {'os-migrateLive': {
            'host': args['host'], 'block_migration': 'auto'}},
        'ACTIVE', 'completed', host=_OPTIONAL_NAME),
    'shelve': _server_verb(
        'shelved', lambda *_: {'shelve': None}, 'SHELVED_OFFLOADED'),
    'unshelve': _server_verb(
        'active', lambda *_: {'unshelve': None}, 'ACTIVE'),
    'host-down': Verb({'host': schema.NAME}, ('down',)),
    # Nova leaves the server stopped, unless it was in ERROR before.
    'evacuate': _server_verb(
        'evacuated', lambda args, flavors: {
            'evacuate': _to_host(args) or {}},
        None, 'done', host=_OPTIONAL_NAME),
    'stop': _server_verb('stopped', lambda *_: {'os-stop': None}, 'SHUTOFF'),
    'start': _server_verb('active', lambda *_: {'os-start': None}, 'ACTIVE'),
    'reboot': _server_verb(
        'active', lambda args, flavors: {'reboot': {
            'type': 'HARD' if args['hard'] else 'SOFT'}}, 'ACTIVE', hard=_OFF),
    'host-up': Verb({'host': schema.NAME}, ('up',)),
    'host-disable': Verb({'host': schema.NAME}, ('disabled',)),
    'host-enable': Verb({'host': schema.NAME}, ('enabled',)),
    'host-drain': Verb({'host': schema.NAME}, ('drained', 'refused')),
    'host-change': Verb({'host': schema.NAME, **CHANGES},
                        ('changed', 'refused')),
}


def list_servers(args):
    """Return the names of the new servers: NAME, or NAME-1 to NAME-COUNT.

    :param args: dict, the keys of a step ``create``
    """
    count = args.get('count', 1)
    return [args['name']] if count == 1 else [
        '%s-%d' % (args['name'], number + 1) for number in range(count)]


@dataclasses.dataclass(frozen=True)
class Step:
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
        args = self.args
        if self.name != 'create':
            return '%s %s%s' % (self.name, args.get('server') or args['host'],
                                self._get_details() or self._get_changes())
        servers = list_servers(args)
        details = [args['flavor'], *(
            '%s %s' % (word, args[key]) for key, word in (
                ('image', 'image'), ('hint', 'hint'), ('group', 'group'),
                ('host', 'on')) if args[key])]
        return 'create %s%s (%s)' % (
            servers[0], ' to ' + servers[-1] if len(servers) > 1 else '',
            ', '.join(details))

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
    """Return the options that a step changes, a dict.

    :param args: dict, the keys of a step about a host
    """
    return {key: args[key] for key in CHANGES if args.get(key) is not None}


def check(name, args, names):
    """Yield (key, sentence) for each wrong value of a step.

    A value is wrong if it names an object that does not exist after the steps
    before, or if it contradicts another value.

    :param name: name of the verb
    :param args: dict, the keys of the step in the file
    :param names: dict, key of REFERENCES to existing names, and 'down' to
        the names of the hosts that are down; the step updates it
    """
    for key, kind in REFERENCES.items():
        if key in args and args[key] not in names[key]:
            yield key, '%r is no known %s; allowed: %s' % (
                args[key], kind, ', '.join(sorted(names[key])) or 'none')
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
