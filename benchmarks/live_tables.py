# SPDX-License-Identifier: Apache-2.0

"""The table of the figures in throughput.json and their limits."""

import statistics

import scipy.stats

from benchmarks import tables

#: Maximum cost of nova_prio, as a fraction of the time of plain Nova. The cost
#: must be below this limit with the probability CONFIDENCE.
MOST_COST = 0.02
CONFIDENCE = 0.95
FIGURES = {
    'create': 'time per create, of four at a time',
    'active': 'from the request to ACTIVE',
    'cpu': 'processor time of all services',
    'scheduler': 'in nova-scheduler, one at a time',
    'scheduler.cpu': 'processor time of nova-scheduler',
}


def costs(found, figure):
    """Return the cost of nova_prio in each complete round, a list.

    A cost is the additional time as a fraction of the time of plain Nova.

    :param found: dict, as read from throughput.json
    """
    halves = [ours[figure] / plain[figure] - 1
              for plain, ours in zip(found['plain'], found['ours'])]
    return list(map(statistics.fmean, zip(halves[::2], halves[1::2])))


def throughput(found):
    """Return the Table of both clouds and their difference."""
    rows = []
    for figure, words in FIGURES.items():
        plain, ours = (statistics.fmean(each[figure] for each in found[side])
                       for side in ('plain', 'ours'))
        sample = costs(found, figure)
        mean = statistics.fmean(sample)
        low, high = scipy.stats.ttest_1samp(sample, 0).confidence_interval(
            CONFIDENCE)
        rows.append((
            words, '%.1f ms' % (1e3 * plain), '%.1f ms' % (1e3 * ours),
            '%+.1f %%' % (100 * mean),
            '%+.1f to %+.1f %%' % (100 * low, 100 * high),
            tables.verdict(high <= MOST_COST)
            if high <= MOST_COST or low > MOST_COST else 'needs more rounds'))
    return tables.Table(
        ('figure', 'without', 'with', 'cost', 'with 95 % confidence',
         'requirement'), rows)


def is_reached(table):
    """Return whether all requirements are reached.

    :param table: result of ``throughput``
    """
    return {tables.verdict(True)} == {row[-1] for row in table.rows}
