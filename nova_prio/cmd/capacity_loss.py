# SPDX-License-Identifier: Apache-2.0

"""The list of ``nova-prio capacity show --after-loss``."""

from nova_prio.cmd import report
from nova_prio.model import flavor_cpus

#: Columns of a table, with the numbers of a class in one column.
TABLE = ['Aggregate', 'Host', *(
    '%s Fit/All' % name.title() for name in flavor_cpus.CLASSES),
    'Missing On The Other Hosts']
#: Columns of the other formats.
COLUMNS = ['Aggregate', 'Host', 'Largest', *(
    '%s %s' % (name.title(), number) for name in flavor_cpus.CLASSES
    for number in ('Fit', 'All')),
    'Missing High', 'Missing Low', 'Missing Ordinary', 'Missing Memory MB',
    'Missing Disk GB', 'Bound By Affinity']
#: Outcomes of ``report.Report.set_outcome``; the states are whether all guests
#: of a host fit.
OUTCOMES = [
    (False, report.FOUND,
     'If one of these hosts is lost, Nova cannot evacuate all of its guests '
     'to the other hosts of the aggregate. Add a host with the missing '
     'resources to the aggregate, or move guests out of the aggregate.'),
    (True, report.CLEAN,
     'If any one of these hosts is lost, its guests fit on the other hosts of '
     'the aggregate.'),
    (None, report.CLEAN, 'No host was checked: no aggregate has a host with a '
                         'report.'),
]


def make_row(loss, is_table):
    """Return the values of ``TABLE`` or ``COLUMNS``, a list.

    :param loss: ``admin.fleet.loss.Loss``
    """
    numbers = [(loss.fitting[name], loss.guests[name])
               for name in flavor_cpus.CLASSES]
    if is_table:
        return [loss.aggregate,
                loss.host + (' (largest)' if loss.is_largest else ''),
                *('%d/%d' % pair for pair in numbers),
                format_missing(loss)]
    addition = loss.addition
    return [loss.aggregate, loss.host, loss.is_largest,
            *(number for pair in numbers for number in pair),
            *addition.rows, addition.memory_mb, addition.disk_gb, loss.bound]


def format_missing(loss):
    """Return the missing resources as a text, or '' if all guests fit."""
    amounts = list(filter(None, [str(loss.addition)]))
    if loss.bound:
        amounts.append('a move of %d guests of affinity groups together'
                       % loss.bound)
    return ', '.join(amounts)
