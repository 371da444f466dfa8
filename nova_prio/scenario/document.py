# SPDX-License-Identifier: Apache-2.0

"""Reads a scenario file, and names the line of each error in it; pure.

``doc/source/user/scenario.rst`` describes the format.
"""

import yaml

from nova_prio.scenario import result
from nova_prio.scenario import schema
from nova_prio.scenario import verbs

DEFAULT_IMAGE = 'default'


class BadScenario(Exception):
    """A file that cannot be played; ``problems`` has one line for each."""

    def __init__(self, problems):
        super().__init__('\n'.join(problems))
        self.problems = problems


class Source:
    """The value of a YAML text, and the line of each of its parts."""

    def __init__(self, name, text):
        self.name = name
        self.problems = []
        self._lines = {}
        self._loader = yaml.SafeLoader('')
        line = 1
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is not None:
                self.value = self._read(node, ())
                return
            problem = 'is empty'
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            problem = 'is not YAML: %s' % (error.problem or error.context)
        except RecursionError:
            problem = 'contains itself'
        except (yaml.YAMLError, ValueError) as error:
            problem = 'is not YAML: %s' % str(error).splitlines()[0]
        raise BadScenario(['%s:%d: %s' % (name, line, problem)])

    def _read(self, node, path):
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, path + (position,))
                    for position, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            value = self._loader.construct_object(node)
            if not _must_be_text(path):
                return value
            if isinstance(value, bool):
                return str(value).lower()
            # For example 010 and 2.0 stay as they are written.
            return node.value if isinstance(value, (int, float)) else value
        mapping = {}
        for key_node, item in node.value:
            key = key_node.value
            if not isinstance(key, str):
                key = str(self._loader.construct_object(key_node, deep=True))
            if key in mapping:
                self.problems.append((path + (key,), 'is given twice'))
            self._lines[path + (key,)] = key_node.start_mark.line + 1
            mapping[key] = self._read(item, path + (key,))
        return mapping

    def line(self, path):
        """Return the line of a part; of the enclosing part if missing."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def problem(self, path, sentence):
        """Return FILE:LINE: key 'KEY': SENTENCE.

        :param path: tuple of keys and list positions
        """
        key = ''.join('[%d]' % part if isinstance(part, int) else '.' + part
                      for part in path).lstrip('.')
        return '%s:%d: %s%s' % (self.name, self.line(path),
                                key and 'key %r: ' % key, sentence)


def _must_be_text(path):
    return len(path) == 4 and path[2] in (
        'aggregate', 'extra_specs', 'properties') or (
            len(path) == 3 and path[2] in ('dedicated', 'shared'))


class Document:
    """A scenario file without errors, with all defaults.

    ``hosts``, ``flavors``, ``images`` and ``server_groups`` are lists of
    dicts with all keys of their rules, ``steps`` is a list of
    :class:`nova_prio.scenario.verbs.Step`. ``affinity_domains`` is the option
    of nova-scheduler, a list of texts. ``problem`` is the method of
    :class:`Source`.
    """

    def __init__(self, source):
        value = source.value
        self.problem = source.problem
        self.description = value.get('description')
        self.affinity_domains = _get_domains(value)
        for key, rules in schema.ITEMS.items():
            setattr(self, key, [schema.with_defaults(rules, item)
                                for item in value.get(key, ())])
        self.steps = [
            verbs.Step(name, schema.with_defaults(
                verbs.VERBS[name].properties, step[name]), step.get('expect'))
            for step in value['steps'] for name in _get_verbs(step)]


def load(path):
    """Return the Document of a file.

    :param path: path of the file; '-' for standard input
    :raises BadScenario: if it cannot be read or breaks a rule
    """
    name, file = ('<stdin>', 0) if path == '-' else (path, path)
    try:
        with open(file, encoding='utf-8', closefd=file != 0) as stream:
            return parse(stream.read(), name)
    except OSError as error:
        problem = 'cannot be read: %s' % (error.strerror or error)
    except UnicodeDecodeError as error:
        problem = 'is not UTF-8 text: %s' % error.reason
    raise BadScenario(['%s: %s' % (name, problem)])


def parse(text, name):
    """Return the Document of a text.

    :param name: name of the file in the errors
    :raises BadScenario: if it breaks a rule
    """
    source = Source(name, text)
    problems = [*source.problems, *schema.find_problems(
        schema.scenario(verbs.step_rules()), source.value)]
    if all(len(path) > 1 for path, _ in problems):
        # Only well-formed items and steps are checked further.
        broken = {path[:2] for path, _ in problems}
        problems += _check_items(source.value, broken)
        problems += _check_steps(source.value, broken)
    if problems:
        lines = {(source.line(path), source.problem(path, sentence))
                 for path, sentence in problems}
        raise BadScenario([problem for _, problem in sorted(lines)])
    return Document(source)


def _get_verbs(step):
    return [name for name in verbs.VERBS if name in step]


def _get_domains(value):
    return value.get('affinity_domains', [schema.HOST_DOMAIN])


def _check_items(value, broken):
    """Yield (path, sentence) for each key that contradicts others."""
    for key, rules in schema.ITEMS.items():
        names = {DEFAULT_IMAGE} if key == 'images' else set()
        for position, item in enumerate(value.get(key, ())):
            path = (key, position)
            if path in broken:
                continue
            if item['name'] in names:
                yield path + ('name',), '%r is already used' % item['name']
            names.add(item['name'])
            if key == 'hosts':
                for name, sentence in _check_host(
                        schema.with_defaults(rules, item)):
                    yield path + (name,), sentence
    *wider, last = _get_domains(value)
    if last != schema.HOST_DOMAIN:
        yield ('affinity_domains', len(wider)), (
            'the last domain must be %s, not %r' % (schema.HOST_DOMAIN, last))


def _check_host(host):
    """Yield (key, sentence) for each key of a host that contradicts others."""
    parts = host['cells'] * host['threads']
    if host['cpus'] % parts:
        yield 'cpus', '%d is not a multiple of %d (cells times threads)' % (
            host['cpus'], parts)
    sets = {}
    for key in ('dedicated', 'shared'):
        if host[key] is None:
            continue
        try:
            sets[key] = result.parse_cpus(host[key])
        except ValueError as error:
            yield key, '%r is not a CPU set: %s' % (host[key], error)
            continue
        missing = sets[key] - set(range(host['cpus']))
        if missing:
            yield key, '%r has CPUs that the host lacks: %s; it has 0-%d' % (
                host[key], result.format_cpus(missing), host['cpus'] - 1)
        if not sets[key]:
            yield key, '%r has no CPUs' % host[key]
    both = sets.get('dedicated', set()) & sets.get('shared', set())
    if both:
        yield 'shared', '%r and dedicated %r have CPUs in common: %s' % (
            host['shared'], host['dedicated'], result.format_cpus(both))
    if host['mix'] and None in (host['dedicated'], host['shared']):
        yield 'mix', 'true needs both dedicated and shared'
    if host['mix'] and host['driver'] == 'stock':
        yield 'mix', "true needs the driver 'prio'"


def _check_steps(value, broken):
    """Yield (path, sentence) for each step that cannot be taken.

    After a step that breaks a rule the servers are unknown: the check ends.
    """
    names = {'server': set(), 'down': set(), **{
        kind: {item['name'] for item in value.get(key, ())
               if isinstance(item, dict) and isinstance(item.get('name'), str)}
        for kind, key in (('flavor', 'flavors'), ('image', 'images'),
                          ('group', 'server_groups'), ('host', 'hosts'))}}
    names['image'].add(DEFAULT_IMAGE)
    for position, step in enumerate(value['steps']):
        path = ('steps', position)
        if path in broken:
            break
        found = _get_verbs(step)
        if len(found) != 1:
            yield path, 'has %s; a step must have one of %s' % (
                ' and '.join(found) or 'no verb', ', '.join(verbs.VERBS))
        for name in found:
            for key, sentence in verbs.check(name, step[name], names):
                yield path + (name, key), sentence
            outcomes = verbs.VERBS[name].outcomes
            if step.get('expect', outcomes[0]) not in outcomes:
                yield path + ('expect',), '%r is not one of %s' % (
                    step['expect'], ', '.join(outcomes))
