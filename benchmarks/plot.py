# SPDX-License-Identifier: Apache-2.0

"""Tables and plot of the contributor guide: ``python -m benchmarks.plot``.

The command reads bench.json. Equal figures result in equal bytes.
"""

import argparse
import io
import json
import pathlib

import matplotlib
from matplotlib import figure

from benchmarks import cost_table
from benchmarks import tables

DIRECTORY = (pathlib.Path(__file__).parents[1] / 'doc' / 'source' /
             'contributor' / 'performance')
STOCK = {'color': '#c2571a', 'marker': 's'}
OURS = {'color': '#1f5fa8', 'marker': 'o'}
STYLE = {
    'axes.axisbelow': True,
    'axes.grid': True,
    'axes.spines.right': False,
    'axes.spines.top': False,
    'font.size': 9,
    'grid.color': '#dddddd',
    # Text stays text, and identifiers do not change from run to run.
    'svg.fonttype': 'none',
    'svg.hashsalt': 'nova-prio',
}


def draw_requests(axes, found):
    """Draw the time per host of each request, for Nova and nova_prio."""
    rows = [('one cell, ' + tables.FULL, 'filter.high.full')]
    rows += [(words, 'filter.%s.feasible' % request)
             for request, (words, *_) in tables.PINNED.items()]
    rows += [(words, 'filter.' + request)
             for request, words in tables.FLOATING.items()]
    rows.append(('the weigher', 'weigher'))
    rows.reverse()
    stock, ours = ([found['%s.%s_us' % (key, side)] for _, key in rows]
                   for side in ('stock', 'ours'))
    positions = range(len(rows))
    axes.hlines(positions, ours, stock, color='#bbbbbb', zorder=1)
    axes.plot(stock, positions, linestyle='', label='Nova', **STOCK)
    axes.plot(ours, positions, linestyle='', label='nova-prio', **OURS)
    axes.set(xscale='log', xlabel='microseconds per host',
             title='Time per host', yticks=positions,
             yticklabels=[words for words, _ in rows])
    axes.grid(axis='y', visible=False)
    _legend_below(axes)


def draw_sizes(axes, found):
    """Draw the time for all hosts by their number, for Nova and nova_prio."""
    sizes = sorted(found['sizes'], key=int)
    numbers = [int(size) for size in sizes]
    for name, side, style in (('Nova', 'stock', STOCK),
                              ('nova-prio', 'ours', OURS)):
        for words, key, line in (
                ('one cell, ' + tables.ROOM, 'filter.high.feasible', '-'),
                ('one cell, ' + tables.FULL, 'filter.high.full', '--'),
                ('low priority', 'filter.low', ':')):
            axes.plot(numbers, [
                found['sizes'][size]['%s.%s_us' % (key, side)] / 1e3 *
                int(size) for size in sizes], linestyle=line,
                label='%s: %s' % (name, words), **style)
    axes.set(xscale='log', yscale='log', xlabel='hosts',
             ylabel='milliseconds', title='Time for all hosts',
             xticks=numbers,
             xticklabels=[format(number, ',d') for number in numbers])
    axes.minorticks_off()
    _legend_below(axes)


def _legend_below(axes):
    axes.legend(loc='upper center', bbox_to_anchor=(0.5, -0.14), ncol=2,
                frameon=False)


def draw(found, path):
    """Write the plot as SVG."""
    with matplotlib.rc_context(STYLE):
        plot = figure.Figure(figsize=(11, 5.5), layout='constrained')
        left, right = plot.subplots(1, 2)
        draw_requests(left, found)
        draw_sizes(right, found)
        save(plot, path)


def save(drawn, path):
    """Write a Figure as SVG."""
    text = io.StringIO()
    drawn.savefig(text, format='svg',
                  metadata={'Creator': None, 'Date': None})
    # matplotlib writes blanks at the ends of lines.
    path.write_text(''.join(
        line.rstrip() + '\n' for line in text.getvalue().splitlines()))


def main():
    """Write the tables and the plot."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.plot', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('bench', nargs='?', default='bench.json')
    parser.add_argument('--directory', type=pathlib.Path, default=DIRECTORY)
    arguments = parser.parse_args()
    with open(arguments.bench) as bench:
        found = json.load(bench)
    if found['missing']:
        parser.error('%s has no figures of %s; measure all parts in one run.'
                     % (arguments.bench, ', '.join(found['missing'])))
    for table in (tables.context, tables.figures, tables.sizes, tables.parts,
                  tables.memory, tables.folds, tables.requests,
                  tables.request_parts, tables.computes, cost_table.costs):
        tables.write(table(found), arguments.directory / (
            table.__name__ + '.csv'))
    draw(found, arguments.directory / 'plot.svg')


if __name__ == '__main__':
    main()
