# SPDX-License-Identifier: Apache-2.0

"""Reads a scenario file, and names the line of each error in it; pure.

``doc/source/user/scenario.rst`` describes the format. A path is a tuple of
keys and list positions in the file, such as ``('hosts', 0, 'cpus')``.
"""

import yaml

from nova_prio_scenario import result
from nova_prio_scenario import schema
from nova_prio_scenario import verbs

DEFAULT_IMAGE = 'default'
#: Keys whose values are text for Nova, although YAML may read a number.
_TEXT_KEYS = frozenset([
    'aggregate', 'extra_specs', 'properties', 'dedicated', 'shared'])
_NEEDS_PRIO = "true needs the driver 'prio'"
_STEP = schema.mapping({
    **{name: schema.mapping(verb.properties, default=None)
       for name, verb in verbs.VERBS.items()}, 'expect': schema.TEXT})
#: The rule of a whole file.
RULE = schema.mapping({
    'description': schema.TEXT,
    'hosts': schema.list_of(schema.mapping(schema.HOST), 'hosts', minItems=1),
    'flavors': schema.list_of(
        schema.mapping(schema.FLAVOR), 'flavors', default=[]),
    'images': schema.list_of(
        schema.mapping(schema.IMAGE), 'images', default=[]),
    'server_groups': schema.list_of(
        schema.mapping(schema.SERVER_GROUP), 'server groups', default=[]),
    'affinity_domains': schema.list_of(
        schema.DOMAIN, 'different keys of aggregate metadata with host as the '
        'last one', minItems=1, uniqueItems=True, default=['host']),
    'steps': schema.list_of(_STEP, 'steps', minItems=1),
})


class BadScenario(Exception):
    """A file that cannot be played; the text has one line per problem."""


class Document:
    """A scenario file without errors, with all defaults.

    ``hosts``, ``flavors``, ``images`` and ``server_groups`` are lists of
    dicts with all keys of their rules, ``steps`` is a list of
    :class:`nova_prio_scenario.verbs.Step`. ``affinity_domains`` is the option
    of nova-scheduler, a list of texts.

    :param text: YAML
    :param name: name of the file in the errors
    :raises BadScenario: if the text breaks a rule
    """

    def __init__(self, text, name):
        self._name = name
        self._lines = {}  # path to number
        self._duplicates = []  # (path, sentence) of each duplicate key
        # Without a text: it only converts the nodes of the text below.
        self._loader = yaml.SafeLoader('')
        value = self._parse(text)
        problems = [*self._duplicates, *schema.find_problems(RULE, value)]
        # Shorter paths are about a whole list or about the whole file.
        if all(len(path) > 1 for path, _ in problems):
            value = schema.with_defaults(RULE['properties'], value)
            # Only well-formed items and steps are checked further.
            broken = {path[:2] for path, _ in problems}
            problems += _check_items(value, broken)
            problems += _check_steps(value, broken)
        if problems:
            # A set: jsonschema may find the same problem twice.
            lines = {(self._get_line(path), self.describe(path, sentence))
                     for path, sentence in problems}
            raise BadScenario('\n'.join(line for _, line in sorted(lines)))
        self.description = value['description']
        self.affinity_domains = value['affinity_domains']
        items = {key: [schema.with_defaults(properties, item)
                       for item in value[key]]
                 for key, properties in schema.ITEMS.items()}
        self.hosts = items['hosts']
        self.flavors = items['flavors']
        self.images = items['images']
        self.server_groups = items['server_groups']
        self.steps = [_make_step(step) for step in value['steps']]

    def _parse(self, text):
        """Return the value of a YAML text; record lines and duplicate keys."""
        line = 1
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is not None:
                return self._read(node, ())
            problem = 'is empty'
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            problem = 'is not YAML: %s' % (error.problem or error.context)
        except RecursionError:
            problem = 'contains itself'
        except (yaml.YAMLError, ValueError) as error:
            problem = 'is not YAML: %s' % str(error).splitlines()[0]
        raise BadScenario('%s:%d: %s' % (self._name, line, problem))

    def _read(self, node, path):
        """Return the value of a YAML node at a path."""
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, path + (position,))
                    for position, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            value = self._loader.construct_object(node)
            # Such as hosts[0].shared, or steps[0].host-change.shared.
            if _TEXT_KEYS.isdisjoint(path[2:4]):
                return value
            if isinstance(value, bool):
                return str(value).lower()
            # For example, 010 and 2.0 remain as they are written.
            return node.value if isinstance(value, (int, float)) else value
        mapping = {}
        for key_node, item in node.value:
            key = key_node.value
            if not isinstance(key, str):
                key = str(self._loader.construct_object(key_node, deep=True))
            if key in mapping:
                self._duplicates.append((path + (key,), 'is given twice'))
            self._lines[path + (key,)] = key_node.start_mark.line + 1
            mapping[key] = self._read(item, path + (key,))
        return mapping

    def _get_line(self, path):
        """Return the line of a path, or of the path that should contain it."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def describe(self, path, sentence):
        """Return a problem as text: FILE:LINE: key 'KEY': SENTENCE."""
        key = ''.join('[%d]' % part if isinstance(part, int) else '.' + part
                      for part in path).lstrip('.')
        return '%s:%d: %s%s' % (self._name, self._get_line(path),
                                key and 'key %r: ' % key, sentence)


def _make_step(step):
    """Return the verbs.Step of a step in the file, a dict with one verb."""
    name, = step.keys() - {'expect'}
    args = schema.with_defaults(verbs.VERBS[name].properties, step[name])
    return verbs.Step(name, args, step.get('expect'))


def load(path):
    """Return the Document of a file.

    :param path: path of the file; '-' for standard input
    :raises BadScenario: if the file cannot be read or breaks a rule
    """
    name, file = ('<stdin>', 0) if path == '-' else (path, path)
    try:
        with open(file, encoding='utf-8', closefd=file != 0) as stream:
            return Document(stream.read(), name)
    except OSError as error:
        problem = 'cannot be read: %s' % (error.strerror or error)
    except UnicodeDecodeError as error:
        problem = 'is not UTF-8 text: %s' % error.reason
    raise BadScenario('%s: %s' % (name, problem))


def _check_items(value, broken):
    """Yield (path, sentence) for each item that contradicts itself or others.

    :param value: dict, the file with all its keys
    :param broken: set of paths of items and steps that are not well-formed
    """
    for key, properties in schema.ITEMS.items():
        names = {DEFAULT_IMAGE} if key == 'images' else set()
        for position, item in enumerate(value[key]):
            path = (key, position)
            if path in broken:
                continue
            if item['name'] in names:
                yield path + ('name',), '%r is already used' % item['name']
            names.add(item['name'])
            if key == 'hosts':
                for name, sentence in _check_host(
                        schema.with_defaults(properties, item)):
                    yield path + (name,), sentence
    *wider, last = value['affinity_domains']
    if last != 'host':
        yield ('affinity_domains', len(wider)), (
            'the last domain must be host, not %r' % last)


def _check_host(host):
    """Yield (key, sentence) for each key of a host that contradicts others.

    :param host: dict with all keys of ``schema.HOST``
    """
    parts = host['cells'] * host['threads']
    if host['cpus'] % parts:
        yield 'cpus', '%d is not a multiple of %d (cells times threads)' % (
            host['cpus'], parts)
    sets = {'dedicated': frozenset(), 'shared': frozenset()}
    for key in sets:
        if host[key] is not None:
            sets[key], sentence = _parse_cpu_set(host[key], host['cpus'])
            if sentence:
                yield key, sentence
    both = sets['dedicated'] & sets['shared']
    if both:
        yield 'shared', '%r and dedicated %r have CPUs in common: %s' % (
            host['shared'], host['dedicated'], result.format_cpus(both))
    if host['mix'] and None in (host['dedicated'], host['shared']):
        yield 'mix', 'true needs both dedicated and shared'
    if host['mix'] and host['driver'] == 'stock':
        yield 'mix', _NEEDS_PRIO


def _parse_cpu_set(text, cpus):
    """Return the frozenset of a CPU set, and a sentence that blames it, or ''.

    :param cpus: number of CPUs of the host
    """
    try:
        found = result.parse_cpus(text)
    except ValueError as error:
        return frozenset(), '%r is not a CPU set: %s' % (text, error)
    missing = found.difference(range(cpus))
    if missing:
        return found, '%r has CPUs that the host lacks: %s; it has 0-%d' % (
            text, result.format_cpus(missing), cpus - 1)
    return found, '' if found else '%r has no CPUs' % text


def _check_change(args, host):
    """Yield (key, sentence) for each value of host-change that is wrong.

    Whether a host starts with a change is for Nova to decide.

    :param args: dict, the keys of the step in the file
    :param host: dict, the host in the file
    """
    for key in ('dedicated', 'shared'):
        if key in args:
            _, sentence = _parse_cpu_set(args[key], host['cpus'])
            if sentence:
                yield key, sentence
    if args.get('mix') and host.get('driver') == 'stock':
        yield 'mix', _NEEDS_PRIO


def _check_steps(value, broken):
    """Yield (path, sentence) for each step that cannot be taken.

    The check ends before a step that is not well-formed, because the existing
    servers are unknown from there on.

    :param value: dict, the file with all its keys
    :param broken: set of paths of items and steps that are not well-formed
    """
    names = {'server': set(), 'down': set(), **{
        kind: {item['name'] for item in value[key]
               if isinstance(item, dict) and isinstance(item.get('name'), str)}
        for kind, key in (('flavor', 'flavors'), ('image', 'images'),
                          ('group', 'server_groups'), ('host', 'hosts'))}}
    names['image'].add(DEFAULT_IMAGE)
    hosts = {host['name']: host for position, host in enumerate(value['hosts'])
             if ('hosts', position) not in broken}
    for position, step in enumerate(value['steps']):
        path = ('steps', position)
        if path in broken:
            break
        found = [name for name in verbs.VERBS if name in step]
        if len(found) != 1:
            yield path, 'has %s; a step must have one of %s' % (
                ' and '.join(found) or 'no verb', ', '.join(verbs.VERBS))
        for name in found:
            problems = [*verbs.check(name, step[name], names)]
            if name == 'host-change' and step[name]['host'] in hosts:
                problems += _check_change(
                    step[name], hosts[step[name]['host']])
            for key, sentence in problems:
                yield path + (name, key), sentence
            outcomes = verbs.VERBS[name].outcomes
            if step.get('expect', outcomes[0]) not in outcomes:
                yield path + ('expect',), '%r is not one of %s' % (
                    step['expect'], ', '.join(outcomes))
