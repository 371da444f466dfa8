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

"""A YAML text that knows the line of each of its parts; pure."""

import yaml


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
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is None:
                raise BadScenario(['%s:1: is empty' % name])
            self.value = self._read(node, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise BadScenario(['%s:%d: is not YAML: %s' % (
                name, mark.line + 1 if mark else 1,
                error.problem or error.context)])
        except RecursionError:
            raise BadScenario(['%s:1: contains itself' % name])
        except (yaml.YAMLError, ValueError) as error:
            raise BadScenario(['%s:1: is not YAML: %s' % (
                name, str(error).splitlines()[0])])

    def _read(self, node, path):
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, path + (position,))
                    for position, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            value = self._loader.construct_object(node)
            if _wants_text(path):
                return _as_text(value, node.value)
            return value
        result = {}
        for key_node, item in node.value:
            key = key_node.value
            if not isinstance(key, str):
                key = str(self._loader.construct_object(key_node, deep=True))
            below = path + (key,)
            if key in result:
                self.problems.append((below, 'is there twice'))
            self._lines[below] = key_node.start_mark.line + 1
            result[key] = self._read(item, below)
        return result

    def line(self, path):
        """Return the line of a part, or of what it would be in."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def problem(self, path, sentence):
        """Return FILE:LINE: key 'KEY': SENTENCE."""
        key = ''.join('[%d]' % part if isinstance(part, int) else '.' + part
                      for part in path).lstrip('.')
        return '%s:%d: %s%s' % (self.name, self.line(path),
                                key and 'key %r: ' % key, sentence)


def _wants_text(path):
    return (len(path) == 4 and path[2] in (
        'aggregate', 'extra_specs', 'properties')) or (
            len(path) == 3 and path[2] in ('dedicated', 'shared'))


def _as_text(value, written):
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, (int, float)):
        return written
    return value
