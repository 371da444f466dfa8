# SPDX-License-Identifier: Apache-2.0

"""The exponents with which the costs in bench.json grow."""

import math
import re
import statistics
import typing

from benchmarks import tables


class _Series(typing.NamedTuple):
    """A cost by one number.

    ``pattern`` is the key of the figures, with N in place of the number.
    ``is_per_host`` says whether the figures are times per host.
    """

    words: str
    number: str
    pattern: str
    is_per_host: bool = False


_LOW = 'request for low priority, '
SERIES = (
    _Series('filter, high priority', 'hosts',
            'sizes.N.filter.high.feasible', is_per_host=True),
    _Series('filter, low priority', 'hosts', 'sizes.N.filter.low',
            is_per_host=True),
    _Series('weigher', 'hosts', 'sizes.N.weigher', is_per_host=True),
    _Series(_LOW + '100 candidates', 'hosts', 'end_to_end.N.low.1_of_100'),
    _Series(_LOW + '1,000 hosts', 'candidates',
            'end_to_end.1000.low.1_of_N'),
    _Series(_LOW + '1,000 hosts', 'instances',
            'end_to_end.1000.low.N_of_100'),
    _Series('request, 250 hosts, 20 candidates', 'Nova cells',
            'scale.request_in_N'),
    _Series('requests, 250 hosts, 20 candidates', 'requests at once',
            'scale.requests_N'),
    _Series('request filter', 'hosts of an aggregate',
            'scale.request_filter_hosts_N'),
    _Series('request filter', 'aggregates',
            'scale.request_filter_aggregates_N'),
    _Series('recount', 'guests', 'recount.N'),
    _Series('create', 'guests', 'recount.create_N'),
    _Series('live migration', 'guests', 'recount.live_migration_N'),
    _Series('audit', 'hosts', 'scale.audit_of_N'),
    _Series('audit', 'Nova cells', 'scale.audit_in_N'),
)


def costs(found):
    """Return the Table of the exponents with which the costs grow.

    :param found: dict, as read from bench.json; may lack parts that were not
        measured
    """
    flat = dict(found)
    for size, of_size in found['sizes'].items():
        flat.update({'sizes.%s.%s' % (size, key): value
                     for key, value in of_size.items()})
    rows = []
    for series in SERIES:
        sides = [_read(flat, series, side) for side in ('stock', 'ours')]
        numbers = sorted(sides[0])
        if len(numbers) > 1:
            rows.append((
                series.words, series.number,
                '{:,d} to {:,d}'.format(numbers[0], numbers[-1]),
                *['%s ms' % tables.three_digits(side[numbers[-1]] / 1e3)
                  for side in sides],
                *['%.2f' % _fit(side) for side in sides]))
    return tables.Table(
        ('cost', 'by number of', 'from', 'Nova at the largest', 'ours',
         'exponent of Nova', 'exponent of ours'), rows)


def _read(flat, series, side):
    """Return dict, number -> microseconds of a side."""
    pattern = re.escape('%s.%s_us' % (series.pattern, side)).replace(
        'N', r'(\d+)')
    found = {}
    for key, value in flat.items():
        match = re.fullmatch(pattern, key)
        if match:
            number = int(match[1])
            found[number] = value * (number if series.is_per_host else 1)
    return found


def _fit(side):
    """Return the exponent of the power law that fits best.

    :param side: dict, number -> microseconds
    """
    return statistics.linear_regression(
        *zip(*[(math.log(number), math.log(value))
               for number, value in side.items()])).slope
