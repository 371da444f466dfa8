# SPDX-License-Identifier: Apache-2.0

"""The rules of a scenario file as JSON schema; pure.

A rule is a dict, the JSON schema of one value. Its ``description`` completes
the sentence "VALUE is not ...". ``default`` is the value of an omitted key; a
key whose rule has no default is required.
"""

import re

import jsonschema


def _is_number(checker, value):
    """Return whether a value is a number.

    A value of YAML's .nan is not a number; no other value differs from itself.

    :param checker: jsonschema.TypeChecker, which calls this function
    """
    return type(value) in (int, float) and value == value


# Later drafts of JSON schema take 4.0 for a whole number, Nova does not.
_Validator = jsonschema.validators.extend(
    jsonschema.Draft4Validator,
    type_checker=jsonschema.Draft4Validator.TYPE_CHECKER.redefine(
        'number', _is_number))


def _whole(minimum, maximum, **more):
    """Return the rule of a whole number.

    :param more: dict, more keywords of the rule, such as ``default``
    """
    rule = {
        'type': 'integer',
        'minimum': minimum,
        'maximum': maximum,
        'description': 'a whole number from %d to %d' % (minimum, maximum),
    }
    return rule | more


def _one_of(*values, **more):
    """Return the rule of a text that is one of some values.

    :param values: tuple of texts
    :param more: dict, more keywords of the rule, such as ``default``
    """
    rule = {
        'enum': list(values),
        'description': 'one of %s' % ', '.join(values),
    }
    return rule | more


def list_of(items, description, **more):
    """Return the rule of a list.

    :param items: dict, the rule of each item
    :param description: the items as text, in the plural
    :param more: dict, more keywords of the rule, such as ``default``
    """
    rule = {
        'type': 'array',
        'items': items,
        'description': 'a list of %s' % description,
    }
    return rule | more


def mapping(properties, **more):
    """Return the rule of a mapping with these keys and no others.

    :param properties: dict, key to rule
    :param more: dict, more keywords of the rule, such as ``default``
    """
    rule = {
        'type': 'object',
        'description': 'a mapping with the keys %s' % ', '.join(properties),
        'properties': properties,
        'required': [key for key, rule in properties.items()
                     if 'default' not in rule],
        'additionalProperties': False,
    }
    return rule | more


NAME = {'type': 'string', 'pattern': r'^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z',
        'description': 'a name of up to 63 letters, digits, ".", "_" and "-"'}
TEXT = {'type': 'string', 'description': 'a text', 'default': None}
BOOLEAN = {'type': 'boolean', 'description': 'true or false'}
PRIORITY = _one_of('high', 'low', default=None)
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
    'default': None,
}
#: A failure domain: a host, or the hosts whose aggregates have the same value
#: of this key.
DOMAIN = {'type': 'string', 'pattern': r'^[^\s,]+\Z',
          'description': 'a key of aggregate metadata, without comma or space'}
RATIO = {'type': 'number', 'minimum': 0, 'exclusiveMinimum': True,
         'maximum': 1000,
         'description': 'a number greater than 0, and up to 1000',
         'default': None}

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


def with_defaults(properties, value):
    """Return a copy of a mapping with all keys.

    :param properties: dict, key to rule
    :param value: dict, key to value
    """
    return {key: value.get(key, rule.get('default'))
            for key, rule in properties.items()}


def find_problems(rule, value):
    """Yield (path, sentence) for each mistake in a value.

    A path is a tuple of keys and list positions, such as ('hosts', 0, 'cpus').

    :param rule: dict
    :param value: value of any type that YAML has
    """
    for error in _Validator(rule).iter_errors(value):
        path = tuple(error.absolute_path)
        rules = error.schema.get('properties')
        if error.validator == 'additionalProperties':
            split_sets = _find_split_sets(rules, error.instance)
            unknown_keys = error.instance.keys() - rules.keys()
            for key, parts in split_sets.items():
                yield path + (key,), (
                    'YAML ends %s at the first comma; quote the value: '
                    '%s: "%s"' % (parts[0], key, ','.join(parts)))
                unknown_keys.difference_update(parts)
            allowed_keys = ', '.join(rules)
            for key in unknown_keys:
                yield path + (key,), 'is unknown; allowed: %s' % allowed_keys
        elif error.validator == 'required':
            missing_keys = set(error.validator_value) - error.instance.keys()
            for key in missing_keys:
                yield path + (key,), 'is missing; it must be %s' % (
                    rules[key]['description'])
        elif error.validator == 'minItems':
            yield path, 'is empty; it must be %s' % error.schema['description']
        else:
            yield path, '%s is not %s' % (
                _format(error.instance), error.schema['description'])


def _find_split_sets(rules, value):
    """Return the CPU sets that YAML ends at a comma.

    Between braces, YAML reads "dedicated: 4-15,20-31" as the CPU set 4-15 and
    a key 20-31 without a value.

    :param rules: dict, key to rule
    :param value: dict in the order of the file
    :returns: dict, key of a CPU set to the list of its parts
    """
    split_sets = {}
    key = None  # the CPU set that the next keys may continue
    for name, part in value.items():
        if name in rules:
            key = name if rules[name] is CPU_SET else None
        elif (key and value[key] is not None and part is None and
              re.match(CPU_SET['pattern'], name)):
            parts = split_sets.setdefault(key, [str(value[key])])
            parts.append(name)
        else:
            key = None
    return split_sets


def _format(value):
    """Return a value as a YAML file has it, at most 60 characters."""
    if value is None:
        return 'nothing'
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + '...'
