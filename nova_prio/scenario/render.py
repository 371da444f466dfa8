# SPDX-License-Identifier: Apache-2.0

"""Shows the result of a scenario as text; pure."""

import textwrap

import prettytable

from nova_prio.scenario import result as data

#: Hosts up to this size get one numbered box per CPU, on one line each;
#: larger ones one letter per CPU, in groups of eight.
BOXED_CPUS = 20
GROUP = 8
GROUPS_PER_LINE = 8
LABEL_WIDTH = 10

CODES = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'


def text(result):
    """Return the whole result: servers, refusals, and a map of each host.

    :param result: :class:`nova_prio.scenario.result.Result`
    """
    faults = sorted(((fault, server.name) for server in result.servers
                     for fault in server.faults),
                    key=lambda pair: pair[0].step)
    parts = [
        server_table(result.servers),
        *('%s, %s' % (name, fault.text.replace('\n', '\n  '))
          for fault, name in faults),
        *(host_map(host, result.servers) for host in result.hosts)]
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


def server_table(servers):
    """Return the table of the servers."""
    table = prettytable.PrettyTable(
        ['name', 'priority', 'status', 'host', 'CPUs', 'partition'])
    table.align = 'l'
    for server in servers:
        cpus = ', '.join(_named(pinned=server.pins.values(),
                                floats=server.floats_on))
        table.add_row([server.name, *(shown or '-' for shown in (
            server.priority, server.status, server.host, cpus,
            server.partition))])
    return table.get_string()


def _named(**sets):
    """Return texts such as "shared 8-11" for the CPU sets that have CPUs."""
    return ['%s %s' % (name, data.cpus_text(cpus))
            for name, cpus in sets.items() if cpus]


def host_map(host, servers):
    """Return the CPUs of a host: which servers are pinned and float on them.

    :param host: :class:`nova_prio.scenario.result.Host`
    :param servers: all Servers of the result
    """
    here = [server for server in servers
            if server.host == host.name and server.cpus is not None]
    pinned = [server.name for server in here if server.pins]
    codes = dict(zip(pinned, _codes(len(pinned))))
    width = max([len(code) for code in codes.values()] or [1])
    floating = _floating(here)
    rows = [*_pinned_rows(here, codes),
            *((kind, dict.fromkeys(cpus)) for kind, cpus in floating)]
    if host.cpus <= BOXED_CPUS:
        lines = _boxes(host.cpus, rows, max(2, width))
    else:
        lines = _letters(host.cpus, rows, width)
    return '\n'.join([
        _heading(host), *lines, *_legend(codes, floating), *_sold(host)])


def _codes(count):
    """Return that many short marks: A, B, ...; AA, AB, ... beyond 52."""
    if count <= len(CODES):
        return CODES[:count]
    return [first + second for first in CODES for second in CODES][:count]


def _by_kind(servers):
    """Yield (row, server), in the order of the rows."""
    for row in data.ROWS:
        for server in servers:
            if (server.priority or 'ordinary') == row:
                yield row, server


def _pinned_rows(here, codes):
    """Return (label, dict of CPU -> mark) for each class that is pinned."""
    found = {}
    for kind, server in _by_kind(here):
        for cpu in server.pins.values():
            found.setdefault(kind, {})[cpu] = codes[server.name]
    return found.items()


def _floating(here):
    """Return dict, (class, CPUs that are floated on) -> names of servers."""
    found = {}
    for kind, server in _by_kind(here):
        if server.floats_on:
            found.setdefault((kind, server.floats_on), []).append(server.name)
    return found


def _heading(host):
    return ', '.join([
        'host %s%s: %d CPUs' % (
            host.name, '' if host.state == 'up' else ' (%s)' % host.state,
            host.cpus),
        *_named(dedicated=host.dedicated, shared=host.shared),
        *('%s %s' % domain for domain in host.domains.items())])


def _labelled(label, words):
    return label.ljust(LABEL_WIDTH) + words


def _boxes(cpus, rows, width):
    """Yield a numbered box for each CPU, and a line of boxes for each row."""
    numbers = {cpu: str(cpu) for cpu in range(cpus)}
    for label, marks in [('CPU', numbers), *rows]:
        yield _labelled(label, '|%s|' % '|'.join(
            _mark(marks, cpu, width, ' ').rjust(width)
            for cpu in range(cpus)))


def _mark(marks, cpu, width, free):
    """Return the mark of a CPU: its owner, "~" if floated on, or free."""
    return marks.get(cpu, free * width) or '~' * width


def _letters(cpus, rows, width):
    """Yield blocks of lines with a mark for each CPU, in groups of eight."""
    per_line = GROUP * max(GROUPS_PER_LINE // width, 1)
    for start in range(0, cpus, per_line):
        block = range(start, min(start + per_line, cpus))
        groups = [block[first:first + GROUP]
                  for first in range(0, len(block), GROUP)]
        yield _labelled('CPU', ' '.join(
            str(group[0]).ljust(GROUP * width) for group in groups)).rstrip()
        for label, marks in rows:
            if not marks.keys().isdisjoint(block):
                yield _labelled(label, ' '.join(''.join(
                    _mark(marks, cpu, width, '.').ljust(width)
                    for cpu in group) for group in groups))


def _legend(codes, floating):
    """Yield which servers the marks stand for, and which float."""
    if codes:
        yield _wrapped('pinned', ['%s %s' % (code, name)
                                  for name, code in codes.items()])
    for (kind, cpus), names in floating.items():
        yield _wrapped('floats', [*names[:-1], '%s (%s, over %s)' % (
            names[-1], kind, data.cpus_text(cpus))])


def _wrapped(label, words):
    """Return a label and words with commas between, in lines of 80 columns."""
    unbroken = ', '.join(word.replace(' ', '\xa0') for word in words)
    return textwrap.fill(
        _labelled(label, unbroken), 80, subsequent_indent=' ' * LABEL_WIDTH,
        break_long_words=False, break_on_hyphens=False).replace('\xa0', ' ')


def _sold(host):
    """Yield the sold CPUs of each class, and the usage in Placement."""
    if host.classes is not None:
        yield _labelled('sold', ', '.join(
            '%d of %d %s (%d left)' % (
                held['used'], held['sellable'], row, host.left[row])
            for row, held in host.classes.items()))
    for name in ('PCPU', 'VCPU'):
        if name not in host.inventory:
            continue
        total, reserved, ratio = (host.inventory[name][key] for key in (
            'total', 'reserved', 'allocation_ratio'))
        used = sum(allocation['resources'].get(name, 0)
                   for allocation in host.allocations.values())
        yield _labelled('placement', (
            '%d of %d %s (total %d, reserved %d, allocation ratio %s)' % (
                used, int((total - reserved) * ratio), name, total, reserved,
                ratio)))
