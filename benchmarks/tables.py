# SPDX-License-Identifier: Apache-2.0

"""The tables of the figures in bench.json and their limits."""

import csv
import typing

ROOM, FULL = 'hosts with room', 'full hosts'
#: Pinned request -> (words, maximum ratio on hosts with room, maximum ratio on
#: full hosts). A ratio is the time of nova_prio over the time of Nova.
PINNED = {
    'high': ('one cell', 1 / 20, 1 / 50),
    'ordinary.pinned': ('one cell, no priority', 1 / 20, 1 / 50),
    **{'high.' + request: (words, 1 / 3, 1 / 3) for request, words in (
        ('two_cells', 'two cells'),
        ('require', 'threads required'),
        ('prefer', 'threads preferred'),
        ('isolate', 'threads isolated'),
        ('huge_pages', 'huge pages'),
        ('small_pages', 'small pages'),
        ('emulator_threads', 'emulator threads isolated'),
        ('mixed', 'mixed policy'),
        ('pci', 'PCI device'),
        ('network_metadata', 'physical network'))},
}
FLOATING = {'low': 'low priority', 'ordinary': 'ordinary'}
#: Maximum seconds of filter and weigher for FLOATING_HOSTS hosts.
FLOATING_SECONDS, FLOATING_HOSTS = 0.1, 10000
WEIGHER_RATIO = 3
#: Failure domains of the group weighers -> (words, maximum ratio).
GROUPS = {'hosts': ('hosts', 2), 'domains': ('zones, racks and hosts', 3)}
GROUP_WEIGHERS = {'soft_affinity': 'SoftAffinityWeigher',
                  'soft_anti_affinity': 'SoftAntiAffinityWeigher'}
#: Position of an instance in its request.
ORDER = {'.first': 'first instance', '': 'each further one'}
#: Requests by class, and maximum microseconds of the request filter.
REQUEST_FILTER = {'low': 'low priority', 'ordinary': 'new ordinary'}
REQUEST_FILTER_US = 2000
#: Plans of moves, and maximum seconds of each.
PLANS = {'drain_one': 'drain of one host', 'drain_many': 'drain of %d hosts',
         'room': 'room for ten instances'}
PLAN_SECONDS = 10
#: Requests that nova-prio explain explains, and maximum seconds of each.
EXPLAINED = {'passes': 'each host passes',
             'pinned': 'each host passes, pinned',
             'refused': 'Placement refuses each host'}
EXPLAIN_SECONDS = 2
#: Maximum seconds in which the planner's hosts and instances are read.
FLEET_SECONDS = 10
#: nova-prio audit calls Placement twice for each host, Nova once.
AUDIT_RATIO = 1.4
#: Maximum memory of the audit over that of an audit of 100 hosts.
AUDIT_PEAK_GROWTH = 1.2
#: Instances of a request -> maximum ratio of the whole time of nova-scheduler.
END_TO_END_RATIOS = {1: 1.0, 10: 0.5}
REQUESTS = {'high': 'high priority', 'low': 'low priority',
            'ordinary': 'ordinary', 'pinned': 'ordinary, pinned'}
#: Maximum ratio of the time of a recount, with the most guests.
RECOUNT_RATIO = 1.15
OPERATIONS = {'create': 'create', 'delete': 'delete',
              'live_migration': 'live migration'}
#: Maximum exponent with which the time grows; 1 means linear growth.
GROWTH_EXPONENT = 1.2
GROWING = {
    'filter.high.feasible': 'one cell, ' + ROOM,
    'filter.high.full': 'one cell, ' + FULL,
    'low': 'low priority, filter and weigher',
    'ordinary': 'ordinary, filter and weigher',
    'weigher': 'weigher',
}
PARTS = {
    'parts.request_copy': "Nova's filter: the copy of the request",
    'parts.nova_fit.feasible': "Nova's filter: the fit, " + ROOM,
    'parts.nova_fit.full': "Nova's filter: the fit, " + FULL,
    'parts.pci_copy': "Nova's fit for PCI devices: the copy of the host's",
    'parts.report': 'our filter: the report',
    'parts.first_report': 'our filter: the report, when it is a new one',
    'parts.free_cpus': 'our filter: the free CPUs of each cell',
    'parts.limits': 'both filters: the limits for the claim, ' + ROOM,
    'weigher.handler': "both weighers: Nova's weight handler",
}
FOLDS = {'plain': 'no priority', 'flavor': 'priority of the flavor',
         'hint': 'priority of the hint'}


class Table(typing.NamedTuple):
    """The titles of the columns, and the rows: tuples of str."""

    header: tuple
    rows: list


def context(found):
    """Return the Table of the versions and the machine."""
    return Table(('', 'this run'), [
        ('Nova', found['nova']),
        ('Python', found['python']),
        ('repeats',
         '%d, ten times as many at 100 hosts; %d of audits, plans and whole '
         'requests; %d of recounts' % (
             found['repeats'], found['audit.repeats'],
             found['recount.repeats']))])


def figures(found):
    """Return the Table of Nova, of nova_prio, and of the limits.

    :param found: dict, as read from bench.json; may lack parts that were not
        measured
    """
    rows = []

    def add_row(words, key, allowed):
        if key + '.ratio' in found:
            ratio = found[key + '.ratio']
            rows.append((
                words, _us(found[key + '.stock_us']),
                _us(found[key + '.ours_us']), _times(ratio), _times(allowed),
                verdict(ratio <= allowed)))

    for request, (words, of_room, of_full) in PINNED.items():
        for group, hosts, allowed in (
                ('feasible', ROOM, of_room), ('full', FULL, of_full)):
            add_row('%s, %s' % (words, hosts),
                    'filter.%s.%s' % (request, group), allowed)
    rows += _floating(found)
    add_row('weigher', 'weigher', WEIGHER_RATIO)
    for policy, weigher in GROUP_WEIGHERS.items():
        for domains, (words, allowed) in GROUPS.items():
            for suffix, order in ORDER.items():
                add_row('%s, %s, %s' % (weigher, words, order),
                        'groups.%s.%s%s' % (policy, domains, suffix), allowed)
    for request, words in REQUEST_FILTER.items():
        key = 'request_filter.' + request
        if key + '.ours_us' in found:
            rows.append((
                'request filter, %s, %s hosts in the aggregate' % (
                    words, _number(found['request_filter.hosts'])),
                _us(found[key + '.stock_us']), _us(found[key + '.ours_us']),
                _times(found[key + '.ratio']), _us(REQUEST_FILTER_US),
                verdict(found[key + '.ours_us'] <= REQUEST_FILTER_US)))
    rows += _planner(found)
    rows += _audit(found)
    for key, words in GROWING.items():
        exponent = found.get('growth.%s.exponent' % key)
        if exponent:
            rows.append((
                'growth: ' + words, '', 'hosts^%.2f' % exponent, '',
                'hosts^%.2f' % GROWTH_EXPONENT,
                verdict(exponent <= GROWTH_EXPONENT)))
    return Table(
        ('request', 'Nova', 'ours', 'ours to Nova', 'allowed', ''), rows)


def requests(found):
    """Return the Table of whole requests in nova-scheduler."""
    rows = []
    for size, limit, instances, kind in _list_requests(found):
        key = 'end_to_end.%d.%s.%d_of_%d' % (size, kind, instances, limit)
        allowed = END_TO_END_RATIOS[instances]
        ratio = found[key + '.ratio']
        rows.append((
            _number(size), _number(limit), str(instances), REQUESTS[kind],
            _ms(found[key + '.stock_us']), _ms(found[key + '.ours_us']),
            _times(ratio), _times(allowed), verdict(ratio <= allowed)))
    return Table(
        ('hosts', 'candidates', 'instances', 'request', 'Nova', 'ours',
         'ours to Nova', 'allowed', ''), rows)


def request_parts(found):
    """Return the Table of the parts of whole requests, Nova and ours."""
    rows = []
    for size, limit, instances, kind in _list_requests(found):
        key = 'end_to_end.%d.%s.%d_of_%d' % (size, kind, instances, limit)
        row = [_number(size), _number(limit), str(instances), REQUESTS[kind]]
        for part in 'placement', 'host_states', 'filters', 'weighers':
            row.append(_both_ms(
                found['%s.stock_%s_ms' % (key, part)],
                found['%s.ours_%s_ms' % (key, part)]))
        row.append('%d / %d' % (sum(found[key + '.stock_queries'].values()),
                                sum(found[key + '.ours_queries'].values())))
        peaks = ''
        if key + '.ours_peak_mib' in found:
            peaks = '%.3g / %.3g MiB' % (
                found[key + '.stock_peak_mib'], found[key + '.ours_peak_mib'])
        rows.append((*row, peaks))
    return Table(
        ('hosts', 'candidates', 'instances', 'request', 'Placement',
         'host states', 'filters', 'weighers', 'database calls', 'memory'),
        rows)


def _list_requests(found):
    """Return the (size, limit, instances, kind) of whole requests."""
    listed = []
    for key in found:
        if key.startswith('end_to_end.') and key.endswith('.ratio'):
            _, size, kind, numbers, _ = key.split('.')
            instances, _, limit = numbers.split('_')
            listed.append((int(size), int(limit), int(instances), kind))
    listed.sort(key=lambda each: (each[0], -each[1], each[2]))
    return listed


def computes(found):
    """Return the Table of nova-compute by number of guests."""
    rows = []
    numbers = sorted(int(key.split('.')[1]) for key in found
                     if key.startswith('recount.') and
                     key.endswith('.libvirt_ratio'))
    for number in numbers:
        key = 'recount.%d' % number
        ratio = found[key + '.ratio']
        judged = '', ''
        if number == numbers[-1]:
            judged = _times(RECOUNT_RATIO), verdict(ratio <= RECOUNT_RATIO)
        rows.append((
            _number(number), 'recount', _ms(found[key + '.stock_us']),
            _ms(found[key + '.ours_us']), _times(ratio), *judged,
            '%d / %d' % (found[key + '.stock_libvirt_calls'],
                         found[key + '.ours_libvirt_calls']),
            '%d / %d' % (found[key + '.stock_queries'],
                         found[key + '.ours_queries']),
            _locked(found, key)))
        for operation, words in OPERATIONS.items():
            key = 'recount.%s_%d' % (operation, number)
            rows.append((
                _number(number), words, _ms(found[key + '.stock_us']),
                _ms(found[key + '.ours_us']), _times(found[key + '.ratio']),
                '', '', '', '', _locked(found, key)))
    return Table(('guests', 'operation', 'Nova', 'ours', 'ours to Nova',
                  'allowed', '', 'libvirt calls', 'database calls',
                  'elapsed time under the lock'), rows)


def _locked(found, key):
    return _both_ms(found[key + '.stock_lock_us'] / 1e3,
                    found[key + '.ours_lock_us'] / 1e3)


def _floating(found):
    """Yield the rows of requests without pinned CPUs, at the largest size."""
    size = max(map(int, found['sizes']), default=0)
    for request, words in FLOATING.items():
        key = '%s_%d' % (request, size)
        if key + '_seconds' in found:
            ours, allowed = (found[key + '_seconds'],
                             FLOATING_SECONDS * size / FLOATING_HOSTS)
            yield (
                '%s, filter and weigher, %s hosts' % (words, _number(size)),
                '%.3g s' % found[key + '.stock_seconds'], '%.3g s' % ours,
                _times(found[key + '.ratio']), '%.3g s' % allowed,
                verdict(ours <= allowed))


def _planner(found):
    """Yield the rows of the planner of moves."""
    for key, words in PLANS.items():
        ours = found.get('planner.%s_seconds' % key)
        if ours is not None:
            if '%d' in words:
                words %= found['planner.drained']
            yield (
                'planner, %s, %s hosts with %s instances' % (
                    words, _number(found['planner.hosts']),
                    _number(found['planner.instances'])),
                '', '%.3g s' % ours, '', '%.3g s' % PLAN_SECONDS,
                verdict(ours <= PLAN_SECONDS))


def _audit(found):
    """Yield the rows of the audit, explain and fleet, in the same cloud."""
    if 'audit.hosts' in found:
        hosts = _number(found['audit.hosts'])
        yield (
            'audit, %s hosts' % hosts,
            '%.3g s' % found['audit.stock_seconds'],
            '%.3g s' % found['audit.ours_seconds'],
            _times(found['audit.ratio']), _times(AUDIT_RATIO),
            verdict(found['audit.ratio'] <= AUDIT_RATIO))
        more = found['audit.peak_growth']
        yield (
            'growth: memory of the audit, from %s to %s hosts' % (
                _number(found['audit.part.hosts']), hosts),
            '', 'times %.3g' % more, '', 'times %.3g' % AUDIT_PEAK_GROWTH,
            verdict(more <= AUDIT_PEAK_GROWTH))
        for key, words in EXPLAINED.items():
            seconds = found['explain.%s_seconds' % key]
            yield (
                'explain, %s, %s hosts' % (words, hosts), '',
                '%.3g s' % seconds, '', '%.3g s' % EXPLAIN_SECONDS,
                verdict(seconds <= EXPLAIN_SECONDS))
        seconds = found['fleet.read_seconds']
        yield (
            'planner, read of %s hosts with %s instances' % (
                hosts, _number(found['fleet.instances'])), '',
            '%.3g s' % seconds, '', '%.3g s' % FLEET_SECONDS,
            verdict(seconds <= FLEET_SECONDS))


def parts(found):
    """Return the Table of the parts of the time."""
    return Table(('part', 'time'), [
        (words, _us(found[part + '_us']))
        for part, words in PARTS.items()])


def sizes(found):
    """Return the Table of the time of nova_prio for all hosts, by number."""
    rows = []
    for size in sorted(found['sizes'], key=int):
        of_size = found['sizes'][size]
        rows.append((_number(int(size)), *(
            _us(of_size[(key + '_' + size if key in FLOATING else key) +
                        '.ours_us']) for key in GROWING)))
    return Table(('hosts', *GROWING.values()), rows)


def folds(found):
    """Return the Table of the time that the fold adds to a create."""
    return Table(('create', 'Nova', 'ours', 'added'), [
        (words, *(_us(found['fold.%s.%s_us' % (case, side)])
                  for side in ('stock', 'ours', 'added')))
        for case, words in FOLDS.items()])


def memory(found):
    """Return the Table of the memory in use."""
    return Table(('what', 'memory'), [
        (words, '%.3g KiB' % found[key]) for key, words in (
            ('host_state_kib', "Nova's state of a host"),
            ('report_text_kib', 'of that, the text of our report'),
            ('report_kept_kib', 'what we keep of a report beside it'))] + [
        ('audit of %s hosts, at most' % _number(found[key + '.hosts']),
         '%.3g MiB' % (found[key + '.peak_kib'] / 1024))
        for key in ('audit.part', 'audit')])


def as_text(table):
    """Return a Table as text with columns."""
    widths = [max(map(len, column))
              for column in zip(table.header, *table.rows)]
    return '\n'.join(
        '  '.join(cell.ljust(width) for cell, width in zip(
            row, widths)).rstrip() for row in (table.header, *table.rows))


def write(table, path):
    """Write a Table as CSV."""
    with open(path, 'w', newline='') as output:
        writer = csv.writer(output, lineterminator='\n')
        writer.writerow(table.header)
        writer.writerows(table.rows)


def _us(microseconds):
    return '%s us' % three_digits(microseconds)


def _ms(microseconds):
    return '%s ms' % three_digits(microseconds / 1e3)


def _both_ms(stock, ours):
    return '%s / %s ms' % (three_digits(stock), three_digits(ours))


def three_digits(number):
    """Return a number as text, with three digits: 24,600 for 24,620."""
    rounded = float('%.3g' % number)
    return format(rounded, ',.0f' if rounded >= 1000 else '.3g')


def _number(number):
    return format(number, ',d')


def _times(ratio):
    return '1/%.3g' % (1 / ratio) if ratio < 1 else '%.3g' % ratio


def verdict(is_reached):
    """Return the word for a limit that is kept, or not kept."""
    return 'reached' if is_reached else 'not reached'
