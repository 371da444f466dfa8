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

"""The rules of a scenario file as JSON schema; pure.

Each rule has a ``description`` that completes the sentence "VALUE is not
...". ``default`` is the value of a key that is left out.
"""


def _whole(minimum, maximum, default=None):
    rule = {'type': 'integer', 'minimum': minimum, 'maximum': maximum,
            'description': 'a whole number from %d to %d'
                           % (minimum, maximum)}
    return rule if default is None else dict(rule, default=default)


def _one_of(*values, default=None):
    rule = {'enum': list(values),
            'description': 'one of %s' % ', '.join(values)}
    return rule if default is None else dict(rule, default=default)


def _list_of(properties, required, description):
    return {
        'type': 'array',
        'description': 'a list of %s' % description,
        'items': mapping(properties, required),
    }


def mapping(properties, required):
    """Return the rule of a mapping that has these keys and no others."""
    return {
        'type': 'object',
        'description': 'a mapping with the keys %s' % ', '.join(properties),
        'properties': properties,
        'required': list(required),
        'additionalProperties': False,
    }


NAME = {'type': 'string', 'pattern': r'^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z',
        'description': 'a name of up to 63 letters, digits, ".", "_" and "-"'}
TEXT = {'type': 'string', 'description': 'a text'}
BOOLEAN = {'type': 'boolean', 'description': 'true or false'}
PRIORITY = _one_of('high', 'low')
COUNT = _whole(1, 1000, default=1)
STRINGS = {
    'type': 'object',
    'description': 'a mapping of texts to texts',
    'additionalProperties': {
        'type': ['string', 'number', 'boolean'],
        'description': 'a text, a number, true or false'},
    'default': {},
}
CPU_SET = {
    'type': ['string', 'integer'],
    'pattern': r'^\^?\d{1,4}(-\d{1,4})?(,\^?\d{1,4}(-\d{1,4})?)*\Z',
    'minimum': 0,
    'description': 'a CPU set such as "0-7,^3"',
}
HOST_DOMAIN = 'host'
DOMAIN = {'type': 'string', 'pattern': r'^[^\s,]+\Z',
          'description': 'a key of aggregate metadata, without comma or space'}
RATIO = {'type': 'number', 'exclusiveMinimum': 0, 'maximum': 1000,
         'description': 'a number greater than 0, and up to 1000'}

HOST = {
    'name': NAME,
    'cpus': _whole(1, 1024),
    'cells': _whole(1, 1024, default=1),
    'threads': _whole(1, 1024, default=1),
    'dedicated': CPU_SET,
    'shared': CPU_SET,
    'ratio': RATIO,
    'mix': dict(BOOLEAN, default=False),
    'memory_mb': _whole(1024, 2 ** 30, default=16384),
    'driver': _one_of('prio', 'stock', default='prio'),
    'aggregate': STRINGS,
}
FLAVOR = {
    'name': NAME,
    'vcpus': _whole(1, 1024),
    'memory_mb': _whole(1, 2 ** 30, default=256),
    'disk_gb': _whole(0, 2 ** 20, default=1),
    'extra_specs': STRINGS,
}
IMAGE = {'name': NAME, 'properties': STRINGS}
SERVER_GROUP = {
    'name': NAME,
    'policy': _one_of('affinity', 'anti-affinity', 'soft-affinity',
                      'soft-anti-affinity'),
}


def scenario(steps):
    """Return the rules of a whole scenario.

    :param steps: the rule of one step
    """
    return mapping({
        'description': TEXT,
        'hosts': dict(_list_of(HOST, ['name', 'cpus'], 'hosts'), minItems=1),
        'flavors': _list_of(FLAVOR, ['name', 'vcpus'], 'flavors'),
        'images': _list_of(IMAGE, ['name'], 'images'),
        'server_groups': _list_of(
            SERVER_GROUP, ['name', 'policy'], 'server groups'),
        'affinity_domains': {
            'type': 'array', 'minItems': 1, 'uniqueItems': True,
            'items': DOMAIN,
            'description': 'a list of different keys of aggregate metadata '
                           'with %s as the last one' % HOST_DOMAIN},
        'steps': {'type': 'array', 'minItems': 1, 'items': steps,
                  'description': 'a list of steps'},
    }, ['hosts', 'steps'])


def with_defaults(properties, value):
    """Return a copy of a mapping with the defaults of its rules filled in.

    A key that has no default is None.
    """
    return {key: value.get(key, rule.get('default'))
            for key, rule in properties.items()}
