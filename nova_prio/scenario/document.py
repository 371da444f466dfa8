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

"""Reads a scenario file and says, line by line, what is wrong with it; pure.

The format is described in ``doc/source/user/scenario.rst``.
"""

import dataclasses

import jsonschema

from nova_prio.scenario import cpu_set
from nova_prio.scenario import schema
from nova_prio.scenario import source
from nova_prio.scenario import verbs
from nova_prio.scenario.verbs import base

DEFAULT_IMAGE = 'default'
STANDARD_INPUT = '-'

# JSON counts 4.0 as a whole number and Nova does not; and no rule about
# numbers holds for .nan, which differs from itself.
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many({
        'integer': lambda checker, value: type(value) is int,
        'number': lambda checker, value: (
            type(value) in (int, float) and value == value),
    }))


@dataclasses.dataclass(frozen=True)
class Step:
    """One step: its verb, the keys of the verb, the outcome it expects."""

    verb: base.Verb
    args: dict
    expect: str | None

    @property
    def title(self):
        """What the step does, in a few words."""
        return self.verb.title(self.args)

    @property
    def deed(self):
        """What the step does to each of its servers, which it leaves out."""
        return self.verb.deed(self.args)


class Document:
    """A scenario file without errors, with the defaults filled in.

    ``hosts``, ``flavors``, ``images`` and ``server_groups`` are lists of
    dicts with all the keys of their rules, ``steps`` a list of :class:`Step`.
    ``affinity_domains`` is the option of nova-scheduler, a list of texts.
    """

    def __init__(self, written, value):
        self._written = written
        self.description = value.get('description')
        self.hosts = self._items(value, 'hosts', schema.HOST)
        self.flavors = self._items(value, 'flavors', schema.FLAVOR)
        self.images = self._items(value, 'images', schema.IMAGE)
        self.server_groups = self._items(
            value, 'server_groups', schema.SERVER_GROUP)
        self.affinity_domains = value.get(
            'affinity_domains', [schema.HOST_DOMAIN])
        self.steps = []
        for step in value['steps']:
            (name, verb), = _verbs_of(step)
            args = schema.with_defaults(verb.properties, step[name])
            self.steps.append(Step(verb, args, step.get('expect')))

    @staticmethod
    def _items(value, key, properties):
        return [schema.with_defaults(properties, item)
                for item in value.get(key) or []]

    def problem(self, path, sentence):
        """Return one line about a part of the file, as for a bad file.

        :param path: tuple of keys and list positions
        """
        return self._written.problem(path, sentence)


def load(path):
    """Return the Document of a file.

    :param path: path of the file; '-' for standard input
    :raises nova_prio.scenario.source.BadScenario: where it cannot be read,
        or breaks a rule
    """
    name, file = (
        ('<stdin>', 0) if path == STANDARD_INPUT else (path, path))
    try:
        with open(file, encoding='utf-8', closefd=file != 0) as stream:
            text = stream.read()
    except OSError as error:
        raise source.BadScenario(['%s: cannot be read: %s' % (
            name, error.strerror or error)])
    except UnicodeDecodeError as error:
        raise source.BadScenario(['%s: is no UTF-8 text: %s' % (
            name, error.reason)])
    return parse(text, name)


def parse(text, name):
    """Return the Document of a text.

    :param name: name of the file in the errors
    :raises nova_prio.scenario.source.BadScenario: where it breaks a rule
    """
    written = source.Source(name, text)
    problems = written.problems + list(_rule_problems(written.value))
    if all(len(path) > 1 for path, _ in problems):
        # What is well-formed is checked further; the rest is left out.
        broken = {path[:2] for path, _ in problems}
        for check in (_name_problems, _domain_problems, _host_problems,
                      _step_problems):
            problems += check(written.value, broken)
    if problems:
        lines = {(written.line(path), written.problem(path, sentence))
                 for path, sentence in problems}
        raise source.BadScenario([problem for _, problem in sorted(lines)])
    return Document(written, written.value)


def _items_of(value, key, broken):
    """Yield (path, item) of those in a list that break no rule."""
    for position, item in enumerate(value.get(key) or []):
        if (key, position) not in broken:
            yield (key, position), item


def _verbs_of(step):
    return [(name, verb) for name, verb in verbs.VERBS.items() if name in step]


def _rule_problems(value):
    """Yield (path, sentence) where a rule of the schema is broken."""
    rules = schema.scenario(verbs.step_rules())
    for error in _Validator(rules).iter_errors(value):
        path = tuple(error.absolute_path)
        known = error.schema.get('properties', {})
        if error.validator == 'additionalProperties':
            for key in error.instance:
                if key not in known:
                    yield path + (key,), 'is unknown; allowed are %s' % (
                        ', '.join(known))
        elif error.validator == 'required':
            for key in error.validator_value:
                if key not in error.instance:
                    yield path + (key,), 'is missing; it is %s' % (
                        known[key]['description'])
        elif error.validator == 'minItems':
            yield path, 'is empty; it is %s' % error.schema['description']
        else:
            yield path, '%s is not %s' % (
                _shown(error.instance), error.schema['description'])


def _shown(value):
    if value is None:
        return 'nothing'
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + '...'


def _name_problems(value, broken):
    """Yield (path, sentence) where a name is there twice."""
    for key in ('hosts', 'flavors', 'images', 'server_groups'):
        seen = {DEFAULT_IMAGE} if key == 'images' else set()
        for path, item in _items_of(value, key, broken):
            if item['name'] in seen:
                yield path + ('name',), '%r is taken already' % item['name']
            seen.add(item['name'])


def _domain_problems(value, broken):
    """Yield (path, sentence) where the narrowest domain is not the host."""
    found = value.get('affinity_domains', [schema.HOST_DOMAIN])
    if found[-1] != schema.HOST_DOMAIN:
        yield ('affinity_domains', len(found) - 1), (
            '%r is the last one, which has to be %s'
            % (found[-1], schema.HOST_DOMAIN))


def _host_problems(value, broken):
    """Yield (path, sentence) where the CPUs of a host contradict it."""
    for path, item in _items_of(value, 'hosts', broken):
        host = schema.with_defaults(schema.HOST, item)
        parts = host['cells'] * host['threads']
        if host['cpus'] % parts:
            yield path + ('cpus',), (
                '%d is not a multiple of %d (cells times threads)'
                % (host['cpus'], parts))
        sets = {}
        for key in ('dedicated', 'shared'):
            if host[key] is None:
                continue
            try:
                sets[key] = cpu_set.parse(host[key])
            except ValueError as error:
                yield path + (key,), '%r is not a CPU set: %s' % (
                    host[key], error)
                continue
            outside = [cpu for cpu in sets[key] if cpu >= host['cpus']]
            if outside:
                yield path + (key,), (
                    '%r has CPUs that the host has not: %s; it has 0-%d'
                    % (host[key], cpu_set.text(outside), host['cpus'] - 1))
            if not sets[key]:
                yield path + (key,), '%r has no CPUs' % host[key]
        both = sets.get('dedicated', set()) & sets.get('shared', set())
        if both:
            yield path + ('shared',), (
                '%r and dedicated %r have CPUs in common: %s'
                % (host['shared'], host['dedicated'], cpu_set.text(both)))
        if host['mix'] and (host['dedicated'] is None
                            or host['shared'] is None):
            yield path + ('mix',), 'true needs both dedicated and shared'
        if host['mix'] and host['driver'] == 'stock':
            yield path + ('mix',), "true needs the driver 'prio'"


def _step_problems(value, broken):
    """Return (path, sentence) for each step that cannot be taken.

    Nothing is known of the servers after a step that breaks a rule.
    """
    def names_of(key):
        return [item['name'] for item in value.get(key) or []
                if isinstance(item, dict)
                and isinstance(item.get('name'), str)]

    names = base.Names(
        flavors=names_of('flavors'), hosts=names_of('hosts'),
        images=[DEFAULT_IMAGE] + names_of('images'),
        groups=names_of('server_groups'))
    problems = []
    for position, step in enumerate(value['steps']):
        path = ('steps', position)
        if path in broken:
            break
        found = _verbs_of(step)
        if len(found) != 1:
            problems.append((path, 'has %s; a step has one of %s' % (
                ' and '.join(name for name, _ in found) or 'no verb',
                ', '.join(verbs.VERBS))))
        for name, verb in found:
            problems += [(path + (name, key), sentence)
                         for key, sentence in verb.check(step[name], names)]
            if 'expect' in step and step['expect'] not in verb.outcomes:
                problems.append((path + ('expect',), '%r is not one of %s' % (
                    step['expect'], ', '.join(verb.outcomes))))
    return problems
