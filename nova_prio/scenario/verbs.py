# SPDX-License-Identifier: Apache-2.0

"""The verbs of a scenario's steps; pure. A new verb is an entry of VERBS."""

from collections import abc
import dataclasses

from nova_prio.scenario import schema

#: Key of a step to the kind of object that its value must name.
REFERENCES = {'server': 'server at this step', 'flavor': 'flavor',
              'image': 'image', 'group': 'server group', 'host': 'host'}


@dataclasses.dataclass(frozen=True)
class Verb:
    """One kind of step.

    ``properties`` are the rules of its keys, and ``outcomes`` the values that
    ``expect`` may have. ``action`` is a function, (args, flavor ids) to the
    body of a server action. The action has worked if the server then has
    ``status`` and its migration the status ``migration``; None stands for any
    status. ``vacates`` tells whether a server may leave a host.
    """

    properties: dict
    required: tuple
    outcomes: tuple
    action: abc.Callable | None = None
    status: str | None = None
    migration: str | None = None
    vacates: bool = True


def _server(outcome, *action, required=(), vacates=True, **properties):
    """Return a verb about one server, which Nova may refuse."""
    return Verb({'server': schema.NAME, **properties}, ('server', *required),
                (outcome, 'refused'), *action, vacates=vacates)


def _host(outcome):
    return Verb({'host': schema.NAME}, ('host',), (outcome,), vacates=False)


def _to_host(args):
    return {'host': args['host']} if args['host'] else None


_FALSE = dict(schema.BOOLEAN, default=False)
_END = {'confirm': dict(schema.BOOLEAN, default=True), 'revert': _FALSE}

#: Name to Verb.
VERBS = {
    'create': Verb(
        {'name': schema.NAME, 'count': schema.COUNT, 'multi': _FALSE,
         'flavor': schema.NAME, 'image': schema.NAME, 'hint': schema.PRIORITY,
         'group': schema.NAME, 'host': schema.NAME, 'force': _FALSE},
        ('name', 'flavor'), ('active', 'refused'), vacates=False),
    'delete': _server('deleted'),
    'resize': _server(
        'resized', lambda args, flavors: {
            'resize': {'flavorRef': flavors[args['flavor']]}},
        'VERIFY_RESIZE', 'finished', required=('flavor',), **_END,
        flavor=schema.NAME),
    'migrate': _server(
        'migrated', lambda args, flavors: {'migrate': _to_host(args)},
        'VERIFY_RESIZE', 'finished', host=schema.NAME, **_END),
    'confirm': _server(
        'confirmed', lambda *_: {'confirmResize': None},
        'ACTIVE', 'confirmed'),
    'revert': _server(
        'reverted', lambda *_: {'revertResize': None}, 'ACTIVE', 'reverted'),
    'live-migrate': _server(
        'migrated', lambda args, flavors: {'os-migrateLive': {
            'host': args['host'], 'block_migration': 'auto'}},
        'ACTIVE', 'completed', host=schema.NAME),
    'shelve': _server(
        'shelved', lambda *_: {'shelve': None}, 'SHELVED_OFFLOADED'),
    'unshelve': _server('active', lambda *_: {'unshelve': None}, 'ACTIVE'),
    'host-down': _host('down'),
    # Nova leaves the server stopped, unless it was in ERROR before.
    'evacuate': _server(
        'evacuated', lambda args, flavors: {
            'evacuate': _to_host(args) or {}},
        None, 'done', vacates=False, host=schema.NAME),
    'start': _server(
        'active', lambda *_: {'os-start': None}, 'ACTIVE', vacates=False),
    'host-up': _host('up'),
}


def list_servers(args):
    """Return the names of the new servers: NAME, or NAME-1 to NAME-COUNT."""
    count = args.get('count', 1)
    return [args['name']] if count == 1 else [
        '%s-%d' % (args['name'], number + 1) for number in range(count)]


@dataclasses.dataclass(frozen=True)
class Step:
    """One step: the name of its verb, all keys, and the expected outcome."""

    name: str
    args: dict
    expect: str | None

    @property
    def title(self):
        """The step, with the names of its servers or host."""
        args = self.args
        if self.name != 'create':
            return '%s %s%s' % (self.name, args.get('server') or args['host'],
                                self._details())
        servers = list_servers(args)
        details = [args['flavor'], *(
            '%s %s' % (word, args[key]) for key, word in (
                ('image', 'image'), ('hint', 'hint'), ('group', 'group'),
                ('host', 'on')) if args[key])]
        return 'create %s%s (%s)' % (
            servers[0], ' to ' + servers[-1] if len(servers) > 1 else '',
            ', '.join(details))

    @property
    def deed(self):
        """The step, without the name of the server."""
        return self.name + self._details()

    def _details(self):
        if 'server' not in self.args:
            return ''
        target = self.args.get('flavor') or self.args.get('host')
        end = (', and revert it' if self.args.get('revert') else
               ', to be confirmed' if self.args.get('confirm') is False else
               '')
        return (' to ' + target if target else '') + end


def check(name, args, names):
    """Yield (key, sentence) for each key that the steps before rule out.

    :param name: name of a verb
    :param args: dict, the keys of the step in the file
    :param names: dict, key of REFERENCES to existing names, and 'down' to
        the hosts that are down; the step updates it
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
    elif name == 'host-up':
        if args['host'] in names['host'] - names['down']:
            yield 'host', '%r is not down at this step' % args['host']
        names['down'].discard(args['host'])


def step_rules():
    """Return the schema of one step: one verb, and its expected outcome."""
    return schema.mapping(
        {**{name: schema.mapping(verb.properties, verb.required)
            for name, verb in VERBS.items()}, 'expect': schema.TEXT}, [])
