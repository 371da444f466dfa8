# SPDX-License-Identifier: Apache-2.0

"""The list of ``nova-prio capacity show --after-loss``."""

from nova_prio.cmd import report
from nova_prio.model import flavor_cpus

#: Columns of a table, with the numbers of a class in one column.
TABLE = ['Aggregate', 'Host', 'High Fit/All', 'Low Fit/All',
         'Ordinary Fit/All', 'Missing On The Other Hosts']
#: Columns of the other formats.
COLUMNS = ['Aggregate', 'Host', 'Largest', 'High Fit', 'High All', 'Low Fit',
           'Low All', 'Ordinary Fit', 'Ordinary All', 'Missing High',
           'Missing Low', 'Missing Ordinary', 'Missing Memory MB',
           'Missing Disk GB', 'Bound By Affinity', 'Not Evacuable']
#: Outcomes of ``report.find_outcome``; the states are whether all guests
#: of a host fit.
OUTCOMES = [
    (False, report.FOUND,
     'If one of these hosts is lost, Nova cannot evacuate all of its guests '
     'to the other hosts of the aggregate. Add a host with the missing '
     'resources to the aggregate, or move guests out of the aggregate.'),
    (True, report.CLEAN,
     'If any one of these hosts is lost, its guests fit on the other hosts of '
     'the aggregate. Where little room is left, this depends on the order of '
     'the evacuations.'),
    (None, report.CLEAN, 'No host was checked: no aggregate has a host with a '
                         'report.'),
]


def make_row(loss):
    """Return the values of ``COLUMNS``, a list.

    :param loss: ``admin.fleet.loss.Loss``. Its ``is_largest`` tells whether no
        host of the aggregate has more high-priority vCPUs.
    """
    row = [loss.aggregate, loss.host, loss.is_largest]
    # Class, high, low or ordinary, -> number of guests: those that fit on the
    # other hosts, and all.
    for name in flavor_cpus.CLASSES:
        row += [loss.fitting[name], loss.guests[name]]
    # What one more host must have for the guests that do not fit, except
    # those that must stay together by their affinity (``loss.bound``).
    missing = loss.addition
    # Its ``rows`` are numbers of vCPUs: pinned ones, all others, and those of
    # the others without low priority.
    row += [missing.rows.high, missing.rows.low, missing.rows.ordinary]
    return row + [missing.memory_mb, missing.disk_gb, loss.bound,
                  loss.not_evacuable]


def make_table_row(loss):
    """Return the values of ``TABLE``, a list.

    :param loss: ``admin.fleet.loss.Loss``. Its ``is_largest`` tells whether no
        host of the aggregate has more high-priority vCPUs.
    """
    host = loss.host
    if loss.is_largest:
        host += ' (largest)'
    row = [loss.aggregate, host]
    # Class, high, low or ordinary, -> number of guests: those that fit on the
    # other hosts, and all.
    for name in flavor_cpus.CLASSES:
        row.append('%d/%d' % (loss.fitting[name], loss.guests[name]))
    # What one more host must have for the guests that do not fit: a text of
    # the vCPUs, memory and disk, '' for nothing.
    addition = str(loss.addition)
    missing = []
    if addition:
        missing.append(addition)
    # Nova evacuates guests one by one, which is impossible for these: all
    # members of their affinity group must be on one host.
    if loss.bound:
        missing.append('a move of %s of affinity groups together'
                       % report.format_count(loss.bound, 'guest'))
    if loss.not_evacuable:
        missing.append('another state of %s, such as active or stopped'
                       % report.format_count(loss.not_evacuable, 'guest'))
    return row + [', '.join(missing)]
