# SPDX-License-Identifier: Apache-2.0

"""The rules of a scenario file as JSON schema; pure.

The ``description`` of each rule completes the sentence "VALUE is not ...".
``default`` is the value of an omitted key.
"""

import jsonschema

# JSON takes 4.0 for a whole number, Nova does not. YAML's .nan is no number.
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many({
        'integer': lambda checker, value: type(value) is int,
        'number': lambda checker, value: (
            type(value) in (int, float) and value == value),
    }))


def _whole(minimum, maximum, **more):
    return {'type': 'integer', 'minimum': minimum, 'maximum': maximum,
            'description': 'a whole number from %d to %d' % (
                minimum, maximum), **more}


def _one_of(*values, **more):
    return {'enum': list(values),
            'description': 'one of %s' % ', '.join(values), **more}


def _list_of(items, description, **more):
    return {'type': 'array', 'items': items,
            'description': 'a list of %s' % description, **more}


def mapping(properties, required):
    """Return the rule of a mapping with these keys and no others."""
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


#: Key of a scenario to the keys of the items in its list.
ITEMS = {'hosts': HOST, 'flavors': FLAVOR, 'images': IMAGE,
         'server_groups': SERVER_GROUP}


def scenario(step):
    """Return the rules of a whole scenario, given the rule of one step."""
    return mapping({
        'description': TEXT,
        'hosts': _list_of(
            mapping(HOST, ['name', 'cpus']), 'hosts', minItems=1),
        'flavors': _list_of(mapping(FLAVOR, ['name', 'vcpus']), 'flavors'),
        'images': _list_of(mapping(IMAGE, ['name']), 'images'),
        'server_groups': _list_of(
            mapping(SERVER_GROUP, ['name', 'policy']), 'server groups'),
        'affinity_domains': _list_of(
            DOMAIN, 'different keys of aggregate metadata with %s as the '
            'last one' % HOST_DOMAIN, minItems=1, uniqueItems=True),
        'steps': _list_of(step, 'steps', minItems=1),
    }, ['hosts', 'steps'])


def with_defaults(properties, value):
    """Return a copy of a mapping with all keys; None without a default."""
    return {key: value.get(key, rule.get('default'))
            for key, rule in properties.items()}


def find_problems(rules, value):
    """Yield (path, sentence) for each rule that a value breaks."""
    for error in _Validator(rules).iter_errors(value):
        path = tuple(error.absolute_path)
        known = error.schema.get('properties')
        if error.validator == 'additionalProperties':
            for key in error.instance:
                if key not in known:
                    yield path + (key,), 'is unknown; allowed: %s' % (
                        ', '.join(known))
        elif error.validator == 'required':
            for key in error.validator_value:
                if key not in error.instance:
                    yield path + (key,), 'is missing; it must be %s' % (
                        known[key]['description'])
        elif error.validator == 'minItems':
            yield path, 'is empty; it must be %s' % error.schema['description']
        else:
            yield path, '%s is not %s' % (
                _shown(error.instance), error.schema['description'])


def _shown(value):
    if value is None:
        return 'nothing'
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + '...'
