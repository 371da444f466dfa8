# SPDX-License-Identifier: Apache-2.0

"""The result of a scenario as text; pure."""

import itertools
import operator
import string
import textwrap

import prettytable

from nova_prio.scenario import result as data

#: Hosts up to this size get one numbered box per CPU, on one line each.
#: Larger hosts get one letter per CPU, in groups of eight.
BOXED_CPUS = 20
GROUP = 8
GROUPS_PER_LINE = 8
LABEL_WIDTH = 10


def text(result):
    """Return the whole result: servers, refusals, and a map of each host.

    :param result: :class:`nova_prio.scenario.result.Result`
    """
    faults = sorted(((step, server.name, fault) for server in result.servers
                     for step, fault in server.faults.items()),
                    key=operator.itemgetter(0))
    parts = [
        server_table(result.servers),
        *('%s, %s' % (name, fault.replace('\n', '\n  '))
          for _, name, fault in faults),
        *(host_map(host, result.servers) for host in result.hosts)]
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


def server_table(servers):
    """Return the table of the servers."""
    table = prettytable.PrettyTable(
        ['name', 'priority', 'status', 'host', 'CPUs', 'partition'])
    table.align = 'l'
    for server in servers:
        cpus = ', '.join(_name_cpus(pinned=server.pins.values(),
                                    floats=server.floats_on))
        table.add_row([server.name, *(value or '-' for value in (
            server.priority, server.status, server.host, cpus,
            server.partition))])
    return table.get_string()


def _name_cpus(**cpu_sets):
    """Return texts such as "shared 8-11", without the empty sets."""
    return ['%s %s' % (name, data.format_cpus(cpus))
            for name, cpus in cpu_sets.items() if cpus]


def host_map(host, servers):
    """Return the CPUs of a host: which servers are pinned and float on them.

    :param host: :class:`nova_prio.scenario.result.Host`
    :param servers: all Servers of the result
    """
    guests = [server for server in servers
              if server.host == host.name and server.cpus is not None]
    codes = _assign_codes([guest.name for guest in guests if guest.pins])
    # Row to dict of CPU to code, and (row, CPUs) to names of servers.
    pinned, floating = {}, {}
    for guest in sorted(guests, key=lambda guest: data.ROWS.index(
            guest.priority or 'ordinary')):
        row = guest.priority or 'ordinary'
        for cpu in guest.pins.values():
            pinned.setdefault(row, {})[cpu] = codes[guest.name]
        if guest.floats_on:
            floating.setdefault((row, guest.floats_on), []).append(guest.name)
    width = max(map(len, codes.values()), default=1)
    draw = _draw_boxes if host.cpus <= BOXED_CPUS else _draw_letters
    return '\n'.join([
        ', '.join(_describe(host)),
        *draw(host.cpus, width, [
            *pinned.items(),
            *((row, dict.fromkeys(cpus)) for row, cpus in floating)]),
        *_legend(codes, floating), *_usage(host)])


def _assign_codes(names):
    """Return a dict, name to code: A, B, ...; AA, AB, ... beyond 52 names."""
    letters = string.ascii_uppercase + string.ascii_lowercase
    return dict(zip(names, letters if len(names) <= len(letters) else map(
        ''.join, itertools.product(letters, repeat=2))))


def _describe(host):
    yield 'host %s%s: %d CPUs' % (
        host.name, '' if host.state == 'up' else ' (%s)' % host.state,
        host.cpus)
    yield from _name_cpus(dedicated=host.dedicated, shared=host.shared)
    for domain in host.domains.items():
        yield '%s %s' % domain


def _label(label, content):
    return label.ljust(LABEL_WIDTH) + content


def _mark(codes, cpu, width, free):
    """Return the code of the CPU, "~" if guests float on it, or ``free``."""
    return codes.get(cpu, free * width) or '~' * width


def _draw_boxes(cpus, width, rows):
    """Yield a numbered box for each CPU, and a line of boxes for each row."""
    width = max(width, 2)
    numbers = {cpu: str(cpu) for cpu in range(cpus)}
    for label, codes in [('CPU', numbers), *rows]:
        yield _label(label, '|%s|' % '|'.join(
            _mark(codes, cpu, width, ' ').rjust(width)
            for cpu in range(cpus)))


def _draw_letters(cpus, width, rows):
    """Yield blocks of lines with a mark for each CPU, in groups of eight."""
    per_line = GROUP * max(GROUPS_PER_LINE // width, 1)
    for start in range(0, cpus, per_line):
        block = range(start, min(start + per_line, cpus))
        yield _label('CPU', ' '.join(
            str(first).ljust(GROUP * width) for first in block[::GROUP])
        ).rstrip()
        for label, codes in rows:
            if not codes.keys().isdisjoint(block):
                marks = ''.join(_mark(codes, cpu, width, '.') for cpu in block)
                yield _label(label, ' '.join(
                    textwrap.wrap(marks, GROUP * width)))


def _legend(codes, floating):
    """Yield the servers for which the marks stand, in lines of 80 columns."""
    lines = [('pinned', ['%s %s' % (code, name)
                         for name, code in codes.items()])] if codes else []
    lines += [('floats', [*names[:-1], '%s (%s, over %s)' % (
        names[-1], row, data.format_cpus(cpus))])
        for (row, cpus), names in floating.items()]
    for label, items in lines:
        # No line ends within an item.
        content = ', '.join(item.replace(' ', '\xa0') for item in items)
        yield textwrap.fill(
            _label(label, content), 80, subsequent_indent=' ' * LABEL_WIDTH,
            break_long_words=False,
            break_on_hyphens=False).replace('\xa0', ' ')


def _usage(host):
    """Yield the sold CPUs of each row, and the usage in Placement."""
    if host.classes is not None:
        yield _label('sold', ', '.join(
            '%d of %d %s (%d left)' % (
                cpus['used'], cpus['sellable'], row, host.remaining[row])
            for row, cpus in host.classes.items()))
    for name in sorted(host.inventory.keys() & {'PCPU', 'VCPU'}):
        total, reserved, ratio = (host.inventory[name][key] for key in (
            'total', 'reserved', 'allocation_ratio'))
        used = sum(allocation['resources'].get(name, 0)
                   for allocation in host.allocations.values())
        yield _label('placement', (
            '%d of %d %s (total %d, reserved %d, allocation ratio %s)' % (
                used, int((total - reserved) * ratio), name, total, reserved,
                ratio)))
