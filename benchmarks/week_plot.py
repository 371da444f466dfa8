# SPDX-License-Identifier: Apache-2.0

"""Tables and plot of the simulated week: ``python -m benchmarks.week_plot``.

The command reads files that ``benchmarks.week`` has written. Equal figures
result in equal bytes.
"""

import argparse
import collections
import json
import pathlib

import matplotlib
from matplotlib import figure

from benchmarks import plot
from benchmarks import tables

DIRECTORY = plot.DIRECTORY.parent / 'scale'
#: Side -> (name, style of its line).
SIDES = {'stock': ('Nova', {'color': '#c2571a', 'linestyle': '-'}),
         'no_mix': ('no mix', {'color': '#777777', 'linestyle': '-'}),
         'mix': ('mix', {'color': '#1f5fa8', 'linestyle': '-'}),
         'mix_packed': ('mix, packed',
                        {'color': '#1f5fa8', 'linestyle': '--'}),
         'mix_supply': ('mix, by low supply',
                        {'color': '#1f5fa8', 'linestyle': ':'})}
DEMANDS = {'ovhcloud': 'OVHcloud 2023', 'azure': 'Azure 2017',
           'small': 'small servers'}
CLASSES = ('high', 'low', 'ordinary')
#: Reason of a refusal, as week_cloud.LIMIT, whose module needs Nova.
LIMIT = 'limit'


def week(found):
    """Return the Table of the last hour of each run, and of its requests."""
    rows = []
    for run in found['runs']:
        refused = _count_refused(run, 'create')
        stranded = run['stranded_vcpus']
        rows.append((
            DEMANDS[run['demand']], SIDES[run['side']][0],
            _number(sum(run['sold'].values())),
            *[_number(refused[each]) for each in CLASSES],
            _number(sum(_count_refused(run, 'evacuate').values())),
            _number(sum(_count_refused(run, 'migrate').values())),
            _number(stranded.get('high', 0) + stranded.get('low', 0)),
            _number(round(run['stranded_memory_gb'])),
            _number(run['empty_hosts'])))
    return tables.Table(
        ('demand', 'cloud', 'vCPUs sold', 'high refused', 'low refused',
         'ordinary refused', 'lost with a failed host',
         'not moved for maintenance', 'stranded vCPUs', 'stranded GB',
         'empty hosts'), rows)


def limits(files):
    """Return the Table of refused creates by the limit of candidates.

    A row counts its demands together.

    :param files: list of dict, as read from files of ``benchmarks.week``
    :raises ValueError: two of the runs differ at most in their seeds
    """
    rows, demands = {}, collections.defaultdict(list)
    for found in files:
        for run in found['runs']:
            key = (_number(found['hosts']), SIDES[run['side']][0],
                   _number(run['limit']), run['order'])
            demand = DEMANDS[run['demand']]
            if demand in demands[key]:
                raise ValueError('two runs have %s' % ', '.join(
                    (*key, demand)))
            demands[key].append(demand)
            row = rows.setdefault(key, collections.Counter())
            row['created'] += run['created']
            row['refused'] += sum(_count_refused(run, 'create').values())
            for name in CLASSES:
                row[name] += run['refused'].get(
                    'create: %s: %s' % (name, LIMIT), 0)
    return tables.Table(
        ('hosts', 'cloud', 'candidates', 'order', 'demands', 'requests',
         'refused', 'high for the limit', 'low for the limit',
         'ordinary for the limit'),
        [(*key, _join_demands(demands[key]), *[
            _number(row[name]) for name in ('created', 'refused', *CLASSES)])
         for key, row in rows.items()])


def _join_demands(names):
    """Return names of demands as one text."""
    return 'all' if len(names) == len(DEMANDS) else ', '.join(sorted(names))


def reasons(found):
    """Return the Table of the reasons of refused creates."""
    rows = []
    for run in found['runs']:
        for key, number in run['refused'].items():
            way, name, reason = key.split(': ', 2)
            if way == 'create':
                rows.append((DEMANDS[run['demand']], SIDES[run['side']][0],
                             name, reason, _number(number)))
    return tables.Table(
        ('demand', 'cloud', 'class', 'reason', 'refused'), rows)


def _count_refused(run, way):
    """Return a Counter, class -> refused requests of a way."""
    counted = collections.Counter()
    for key, number in run['refused'].items():
        of_way, name, _reason = key.split(': ', 2)
        if of_way == way:
            counted[name] += number
    return counted


def _number(number):
    return format(number, ',d')


def draw(found, path):
    """Write the vCPUs sold in each hour as SVG, a plot for each demand."""
    demands = list(dict.fromkeys(run['demand'] for run in found['runs']))
    with matplotlib.rc_context(plot.STYLE):
        drawn = figure.Figure(figsize=(11, 4), layout='constrained')
        all_axes = drawn.subplots(1, len(demands), squeeze=False)[0]
        for axes, demand in zip(all_axes, demands):
            for run in found['runs']:
                if run['demand'] != demand:
                    continue
                name, style = SIDES[run['side']]
                sold = [sum(hour.values()) / 1e3
                        for hour in run['sold_by_hour']]
                axes.plot([hour / 24 for hour in range(len(sold))], sold,
                          label=name, **style)
            axes.set(xlabel='day', title=DEMANDS[demand])
            axes.set_ylim(bottom=0)
            axes.legend(loc='lower right', frameon=False)
        all_axes[0].set_ylabel('thousand vCPUs sold')
        plot.save(drawn, path)


def main():
    """Write the tables and the plot."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.week_plot', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('week', nargs='?', default='week.json')
    parser.add_argument('--limits', action='append', metavar='FILE',
                        default=[], help='file of runs with --name-limit; may '
                        'be given several times')
    parser.add_argument('--directory', type=pathlib.Path, default=DIRECTORY)
    arguments = parser.parse_args()
    found = json.loads(pathlib.Path(arguments.week).read_text())
    if len({(run['limit'], run['order']) for run in found['runs']}) > 1:
        parser.error('%s has several limits or orders: give this file with '
                     '--limits only.' % arguments.week)
    files = []
    for name in arguments.limits:
        of_limits = json.loads(pathlib.Path(name).read_text())
        if not of_limits.get('names_limit'):
            parser.error('%s is without --name-limit.' % name)
        files.append(of_limits)
    try:
        limits_table = limits(files)
    except ValueError as error:
        parser.error('--limits: %s.' % error)
    for table in week, reasons:
        tables.write(table(found), arguments.directory / (
            table.__name__ + '.csv'))
    draw(found, arguments.directory / 'week.svg')
    if files:
        tables.write(limits_table, arguments.directory / 'limits.csv')


if __name__ == '__main__':
    main()
