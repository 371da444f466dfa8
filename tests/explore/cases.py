# SPDX-License-Identifier: Apache-2.0

"""The cases of the explorer: their names, and how they are selected."""

import fnmatch
import random
import typing

from tests.explore import disturbances
from tests.explore import kinds
from tests.explore import operations

#: Stands for the disturbance of a run that finds the points, and for its
#: point.
NOTHING = 'nothing'
NO_POINT = 'None'
#: Stands for the disturbance of a sweep.
SWEEP = 'sweep'
#: Operations with a source host that is down.
_ON_DEAD_HOST = frozenset((
    'delete_locally', 'evacuate', 'evacuate_after_killed_move',
    'fail_to_evacuate'))
#: Operations to or from another cell.
_BETWEEN_CELLS = frozenset((
    'migrate', 'resize', 'confirm', 'confirm_resize', 'revert',
    'revert_resize', 'delete_migrated'))


class Triple(typing.NamedTuple):
    """An operation, a kind of instance and a disturbance, each a name."""

    operation: str
    kind: str
    disturbance: str

    def __str__(self):
        return ':'.join(self)


def list_triples(patterns):
    """Return the Triples that make sense and match a pattern, a list.

    :param patterns: list of str; each has a glob for each part, such as
        "migrate*:high:*". Parts at the end may be left out
    """
    globs = [(pattern.split(':') + ['*', '*'])[:3] for pattern in patterns]
    every = (Triple(operation, kind, disturbance)
             for operation in operations.list_names()
             for kind in kinds.list_names()
             for disturbance in disturbances.list_names())
    return [triple for triple in every if _makes_sense(triple) and any(
        all(map(fnmatch.fnmatchcase, triple, each)) for each in globs)]


def parse(case):
    """Return the Triple and the point of a case.

    :param case: its name, such as "migrate:high:delete_it:Instance.save#3", or
        "migrate:high:sweep:0"
    """
    *triple, point = case.split(':')
    return Triple(*triple), point


def is_full(case):
    """Return whether the name of a case has all parts of a case."""
    return case.count(':') == 3


def check(case):
    """Check the name of a case, or a pattern.

    :raises ValueError: with a sentence, if it names nothing that can be played
    """
    if is_full(case):
        _check_full(case)
    elif case.count(':') > 3:
        raise ValueError(
            '%s has more parts than OPERATION:KIND:DISTURBANCE:POINT' % case)
    elif not list_triples([case]):
        raise ValueError(
            '%s selects no case: a pattern is OPERATION[:KIND[:DISTURBANCE]], '
            'and --help lists the names' % case)


def _check_full(case):
    if set(case) & set('*?['):
        raise ValueError(
            '%s is a pattern with a point: only patterns without a point may '
            'have *, ? and [' % case)
    triple, point = parse(case)
    known = {
        'operation': operations.list_names(), 'kind': kinds.list_names(),
        'disturbance': [*disturbances.list_names(), NOTHING, SWEEP]}
    for part, names in known.items():
        name = getattr(triple, part)
        if name not in names:
            raise ValueError('%s: "%s" is no %s; --help lists the names' % (
                case, name, part))
    obstacle = _find_obstacle(triple)
    if obstacle:
        raise ValueError('%s cannot be played: %s' % (case, obstacle))
    if triple.disturbance == SWEEP:
        count = len(order_disturbances(triple.operation, triple.kind))
        # Not "007", which would be a second name of a case.
        if point not in map(str, range(count)):
            raise ValueError(
                '%s: the number of a sweep of this operation and kind is 0 to '
                '%d' % (case, count - 1))
    elif (triple.disturbance == NOTHING) != (point == NO_POINT):
        raise ValueError(
            '%s: the point of the disturbance "%s", and of no other one, is '
            '"%s"' % (case, NOTHING, NO_POINT))


def _find_obstacle(triple):
    """Return why a disturbance cannot change anything, a str, or None."""
    if (kinds.get_suffix(triple.kind) == kinds.BETWEEN_CELLS and
            triple.operation not in _BETWEEN_CELLS):
        return 'this operation does not move an instance of this kind'
    if triple.disturbance == 'return_source':
        if triple.operation not in _ON_DEAD_HOST:
            return 'the source host of this operation is up'
    elif triple.operation in _ON_DEAD_HOST and 'source' in triple.disturbance:
        return 'the source host of this operation is down'
    return None


def _makes_sense(triple):
    """Return whether a disturbance can change something."""
    return _find_obstacle(triple) is None


def list_sweeps(triples):
    """Return the pairs (operation, kind) whose sweep plays a Triple."""
    pairs = dict.fromkeys(
        (triple.operation, triple.kind) for triple in triples
        if triple.disturbance not in disturbances.ENDING)
    # Another cloud takes a long time to start.
    return sorted(pairs, key=lambda pair: kinds.get_suffix(pair[1]))


def order_disturbances(operation, kind):
    """Return the names of the disturbances of a sweep, in their order.

    Those that let the operation go on for many points come last, one of each
    host.
    """
    names = [name for name in disturbances.list_names()
             if name not in disturbances.ENDING and
             _makes_sense(Triple(operation, kind, name))]
    generator = random.Random('%s:%s' % (operation, kind))
    generator.shuffle(names)
    far = {}
    for name in names:
        if disturbances.is_far(name):
            far.setdefault('source' in name, name)
    return [name for name in names
            if not disturbances.is_far(name)] + list(far.values())


def draw_ending(triples, seed):
    """Return a drawn case of each Triple that no sweep plays, as ``draw``."""
    return [(triple, random.Random('%s:%s' % (seed, triple)).random())
            for triple in triples
            if triple.disturbance in disturbances.ENDING]


def draw(triples, number, seed):
    """Return randomly drawn pairs (Triple, number from 0 to 1), a list.

    The number tells which of its points to take.
    """
    generator = random.Random(seed)
    return [(generator.choice(triples), generator.random())
            for _ in range(number)]
