# SPDX-License-Identifier: Apache-2.0

"""Finds the items and steps of a scenario file that contradict others; pure.

An item is one host, flavor, image or server group of the file, a dict. The
schema of the file knows only one value at a time
(:mod:`nova_prio_scenario.schema`). A path is a tuple of keys and list
positions in the file, such as ``('hosts', 0, 'cpus')``.
"""

from nova_prio_scenario import result
from nova_prio_scenario import schema
from nova_prio_scenario import verbs

#: Name of the image that each scenario has.
DEFAULT_IMAGE = 'default'
_NEEDS_PRIO = "true needs the driver 'prio'"


def check_items(value, broken):
    """Yield (path, sentence) for each item that contradicts itself or others.

    :param value: dict, the file with all its keys
    :param broken: set of paths of items and steps that are not well-formed
    """
    for key, properties in schema.ITEMS.items():
        names = set()
        if key == 'images':
            names.add(DEFAULT_IMAGE)
        for position, item in enumerate(value[key]):
            path = (key, position)
            if path in broken:
                continue
            if item['name'] in names:
                yield path + ('name',), '%r is already used' % item['name']
            names.add(item['name'])
            if key == 'hosts':
                host = schema.with_defaults(properties, item)
                for name, sentence in _check_host(host):
                    yield path + (name,), sentence
    domains = value['affinity_domains']
    if domains[-1] != 'host':
        yield ('affinity_domains', len(domains) - 1), (
            'the last domain must be host, not %r' % domains[-1])


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
            sets[key], problem = _parse_cpu_set(host[key], host['cpus'])
            if problem:
                yield key, problem
    both = sets['dedicated'] & sets['shared']
    if both:
        yield 'shared', '%r and dedicated %r have CPUs in common: %s' % (
            host['shared'], host['dedicated'], result.format_cpus(both))
    if host['mix'] and None in (host['dedicated'], host['shared']):
        yield 'mix', 'true needs both dedicated and shared'
    if host['mix'] and host['driver'] == 'stock':
        yield 'mix', _NEEDS_PRIO


def _parse_cpu_set(text, cpus):
    """Return the frozenset of a CPU set, and its problem, a sentence or ''.

    :param text: str, the CPU set
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
    if not found:
        return found, '%r has no CPUs' % text
    return found, ''


def _check_change(args, host):
    """Yield (key, sentence) for each value of host-change that is wrong.

    Whether a host starts with a change is for Nova to decide.

    :param args: dict, the keys of the step in the file
    :param host: dict, the host in the file
    """
    for key in ('dedicated', 'shared'):
        if key in args:
            _, problem = _parse_cpu_set(args[key], host['cpus'])
            if problem:
                yield key, problem
    if args.get('mix') and host.get('driver') == 'stock':
        yield 'mix', _NEEDS_PRIO


def check_steps(value, broken):
    """Yield (path, sentence) for each step that cannot be taken.

    The check ends before a step that is not well-formed, because the existing
    servers are unknown from there on.

    :param value: dict, the file with all its keys
    :param broken: set of paths of items and steps that are not well-formed
    """
    names = {
        'server': set(),
        'down': set(),
        'flavor': _list_names(value['flavors']),
        'image': _list_names(value['images']) | {DEFAULT_IMAGE},
        'group': _list_names(value['server_groups']),
        'host': _list_names(value['hosts']),
    }
    hosts = {}  # name to dict, the hosts that are well-formed
    for position, host in enumerate(value['hosts']):
        if ('hosts', position) not in broken:
            hosts[host['name']] = host
    for position, step in enumerate(value['steps']):
        path = ('steps', position)
        if path in broken:
            break
        found = [name for name in verbs.VERBS if name in step]
        if len(found) != 1:
            yield path, 'has %s; a step must have one of %s' % (
                ' and '.join(found) or 'no verb', ', '.join(verbs.VERBS))
        for name in found:
            args = step[name]
            problems = list(verbs.check(name, args, names))
            if name == 'host-change' and args['host'] in hosts:
                problems += _check_change(args, hosts[args['host']])
            for key, sentence in problems:
                yield path + (name, key), sentence
            outcomes = verbs.VERBS[name].outcomes
            if step.get('expect', outcomes[0]) not in outcomes:
                yield path + ('expect',), '%r is not one of %s' % (
                    step['expect'], ', '.join(outcomes))


def _list_names(items):
    """Return the names of the items that have one, a set.

    :param items: list of the file; an item may be of any type that YAML has
    """
    names = set()
    for item in items:
        if isinstance(item, dict) and isinstance(item.get('name'), str):
            names.add(item['name'])
    return names
