# SPDX-License-Identifier: Apache-2.0

"""Reads a scenario file, and names the line of each error in it; pure.

``doc/source/user/scenario.rst`` describes the format. A path is a tuple of
keys and list positions in the file, such as ``('hosts', 0, 'cpus')``. A rule
is the JSON schema of a value (:mod:`nova_prio_scenario.schema`).
"""

import yaml

from nova_prio_scenario import checks
from nova_prio_scenario import schema
from nova_prio_scenario import verbs

#: Name of the image that each scenario has.
DEFAULT_IMAGE = checks.DEFAULT_IMAGE
#: Keys whose values are text for Nova, although YAML may read a number.
_TEXT_KEYS = frozenset([
    'aggregate', 'extra_specs', 'properties', 'dedicated', 'shared'])
# The rule of a step has a key for each verb: a step has one of these keys.
_STEP_KEYS = {name: schema.mapping(verb.properties, default=None)
              for name, verb in verbs.VERBS.items()}
_STEP = schema.mapping(_STEP_KEYS | {'expect': schema.TEXT})
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
    :class:`nova_prio_scenario.verbs.ScenarioStep`. ``affinity_domains`` is the
    option of nova-scheduler, a list of texts. ``description`` is a text or
    None.

    :param text: YAML
    :param name: name of the file in the errors
    :raises BadScenario: if the text breaks a rule
    """

    def __init__(self, text, name):
        """Read and check a text; the class describes the parameters."""
        self._name = name
        self._lines = {}  # path to number
        self._duplicates = []  # (path, sentence) of each duplicate key
        # Without a text: it only converts the nodes of the text below.
        self._loader = yaml.SafeLoader('')
        value = self._parse(text)
        problems = list(self._duplicates)
        problems += schema.find_problems(RULE, value)
        # Shorter paths are about a whole list or about the whole file.
        if all(len(path) > 1 for path, _ in problems):
            value = schema.with_defaults(RULE['properties'], value)
            # Only well-formed items and steps are checked further.
            broken = {path[:2] for path, _ in problems}
            problems += checks.check_items(value, broken)
            problems += checks.check_steps(value, broken)
        if problems:
            raise self._make_error(problems)
        self.description = value['description']
        self.affinity_domains = value['affinity_domains']
        self.hosts = _complete_items(value, 'hosts')
        self.flavors = _complete_items(value, 'flavors')
        self.images = _complete_items(value, 'images')
        self.server_groups = _complete_items(value, 'server_groups')
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

    def _make_error(self, problems):
        """Return the BadScenario of all problems, in the order of the file.

        :param problems: list of (path, sentence)
        """
        # A set: jsonschema may find the same problem twice.
        descriptions = set()  # (line number, text)
        for path, sentence in problems:
            descriptions.add(
                (self._get_line(path), self.describe(path, sentence)))
        texts = [text for _, text in sorted(descriptions)]
        return BadScenario('\n'.join(texts))

    def _get_line(self, path):
        """Return the line of a path, or of the path that should contain it."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def describe(self, path, sentence):
        """Return a problem as text: FILE:LINE: key 'KEY': SENTENCE."""
        key = ''
        for part in path:
            if isinstance(part, int):
                key += '[%d]' % part
            else:
                key += '.' + part
        key = key.lstrip('.')
        if key:
            sentence = 'key %r: %s' % (key, sentence)
        return '%s:%d: %s' % (self._name, self._get_line(path), sentence)


def _make_step(step):
    """Return the verbs.ScenarioStep of a step in the file.

    :param step: dict with one verb
    """
    name, = step.keys() - {'expect'}
    args = schema.with_defaults(verbs.VERBS[name].properties, step[name])
    return verbs.ScenarioStep(name=name, args=args, expect=step.get('expect'))


def _complete_items(value, key):
    """Return the items of a list with all keys, a list of dicts.

    :param value: dict, the file with all its keys
    :param key: key of ``schema.ITEMS``
    """
    return [schema.with_defaults(schema.ITEMS[key], item)
            for item in value[key]]


def load(path):
    """Return the Document of a file.

    :param path: path of the file; '-' for standard input
    :raises BadScenario: if the file cannot be read or breaks a rule
    """
    name = file = path
    if path == '-':
        name, file = '<stdin>', 0  # the descriptor of standard input
    try:
        with open(file, encoding='utf-8', closefd=file != 0) as stream:
            return Document(stream.read(), name)
    except OSError as error:
        problem = 'cannot be read: %s' % (error.strerror or error)
    except UnicodeDecodeError as error:
        problem = 'is not UTF-8 text: %s' % error.reason
    raise BadScenario('%s: %s' % (name, problem))
