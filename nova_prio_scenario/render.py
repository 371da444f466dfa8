# SPDX-License-Identifier: Apache-2.0

"""The result of a scenario as text; pure."""

import operator
import textwrap

from nova_prio.admin.page import content
from nova_prio.cmd import tables
from nova_prio_scenario import page
from nova_prio_scenario import result as data

#: Hosts up to this size get one numbered box per CPU, on one line each.
#: Larger hosts get one letter per CPU, in groups of eight.
BOXED_CPUS = 20
BOX_WIDTH = 2
GROUP = 8
GROUPS_PER_LINE = 8
LABEL_WIDTH = 10


def format_result(result, hosts):
    """Return the whole result: servers, refusals, and a map of each host.

    :param result: :class:`nova_prio_scenario.result.Result`
    :param hosts: list of dicts, the hosts of the scenario file
    """
    parts = [
        format_servers(result.servers),
        *format_faults(result),
        *(draw_host(host, report, result.servers)
          for host, report in zip(hosts, result.hosts))]
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


def format_servers(servers):
    """Return the table of the servers."""
    rows = []
    for server in servers:
        cpus = ', '.join(_name_cpus(pinned=server.pinned_on,
                                    floats=server.floats_on))
        rows.append([server.name, *(value or '-' for value in (
            server.priority, server.status, server.host, cpus,
            server.partition))])
    return tables.format_table(
        ['name', 'priority', 'status', 'host', 'CPUs', 'partition'], rows)


def format_faults(result):
    """Yield the refusals by step, with the servers that share each one.

    :param result: :class:`nova_prio_scenario.result.Result`
    """
    names = {}  # (step, fault) to names
    for name, faults in data.list_faults(
            result.servers, result.host_faults):
        for refusal in faults.items():
            names.setdefault(refusal, []).append(name)
    for refusal in sorted(names, key=operator.itemgetter(0)):
        yield ', '.join([*names[refusal], refusal[1].replace('\n', '\n  ')])


def _name_cpus(**cpu_sets):
    """Return texts such as "shared 8-11", without the empty sets."""
    return ['%s %s' % (name, data.format_cpus(cpus))
            for name, cpus in cpu_sets.items() if cpus]


def draw_host(host, report, servers):
    """Return a map of the CPUs of a host, with the servers on each CPU.

    Each server with pinned vCPUs gets a letter, its code. Servers that float
    on a CPU are drawn as "~". A stopped server keeps its CPUs.

    :param host: dict, the host in the scenario file
    :param report: dict, the host in the result
    :param servers: all Servers of the result
    """
    guests = [server for server in servers
              if server.host == host['name'] and server.cpus is not None]
    codes = content.assign_codes([
        _name_guest(guest) for guest in guests if guest.pinned_on])
    is_boxed = host['cpus'] <= BOXED_CPUS
    width = BOX_WIDTH if is_boxed else max(map(len, codes.values()), default=1)
    # Row to dict of CPU to code, and (row, CPUs) to names of servers.
    pinned, floating = {}, {}
    # The order of the rows is alphabetical: high, low, ordinary.
    for guest in sorted(guests, key=operator.attrgetter('row')):
        for cpu in guest.pinned_on:
            pinned.setdefault(guest.row, {})[cpu] = codes[
                _name_guest(guest)]
        if guest.floats_on:
            floating.setdefault((guest.row, guest.floats_on), []).append(
                _name_guest(guest))
    lines = [*pinned.items(), *(
        (row, dict.fromkeys(cpus, '~' * width)) for row, cpus in floating)]
    draw = _draw_boxes if is_boxed else _draw_letters
    return '\n'.join([
        ', '.join(_describe(host, report)), *draw(host['cpus'], width, lines),
        *_list_names(codes, floating), *_list_usage(report)])


def _name_guest(server):
    """Return the name of a server on the map."""
    return server.name + (' (stopped)' if server.status == 'SHUTOFF' else '')


def _describe(host, report):
    """Yield the name and state, the CPU sets and the domains of a host."""
    marks = [mark for mark, is_shown in (
        ('down', report['state'] == 'down'),
        ('disabled', report['status'] == 'disabled')) if is_shown]
    yield 'host %s%s: %d CPUs' % (
        host['name'], ' (%s)' % ', '.join(marks) if marks else '',
        host['cpus'])
    # A step may have changed the sets of the file.
    yield from _name_cpus(**{
        key: data.parse_cpus(report[key]) for key in ('dedicated', 'shared')
        if report[key]})
    for domain in report['domains'].items():
        yield '%s %s' % domain


def _label(label, content):
    return label.ljust(LABEL_WIDTH) + content


def _draw_boxes(cpus, width, lines):
    """Yield a row of numbered boxes, then one row for each of the ``lines``.

    A row has one box for each CPU.

    :param cpus: number of CPUs
    :param width: number of characters of a mark
    :param lines: list of (label, dict of CPU to mark)
    """
    numbers = {cpu: str(cpu) for cpu in range(cpus)}
    for label, marks in [('CPU', numbers), *lines]:
        yield _label(label, '|%s|' % '|'.join(
            marks.get(cpu, '').rjust(width) for cpu in range(cpus)))


def _draw_letters(cpus, width, lines):
    """Yield blocks of lines with a mark for each CPU, in groups of eight.

    The arguments are those of :func:`_draw_boxes`.
    """
    per_block = GROUP * max(GROUPS_PER_LINE // width, 1)
    for start in range(0, cpus, per_block):
        block = range(start, min(start + per_block, cpus))
        yield _label('CPU', ' '.join(
            str(first).ljust(GROUP * width) for first in block[::GROUP])
        ).rstrip()
        for label, marks in lines:
            if not marks.keys().isdisjoint(block):
                text = ''.join(marks.get(cpu, '.' * width) for cpu in block)
                yield _label(label, ' '.join(
                    textwrap.wrap(text, GROUP * width)))


def _list_names(codes, floating):
    """Yield the names of the servers on the map, in lines of 80 columns.

    :param codes: dict, name of a server with pinned vCPUs to its code
    :param floating: dict, (row, CPUs) to names of the servers that float there
    """
    lines = [('pinned', ['%s %s' % (code, name)
                         for name, code in codes.items()])] if codes else []
    for (row, cpus), names in floating.items():
        where = ' (%s, over %s)' % (row, data.format_cpus(cpus))
        lines.append(('floats', [*names[:-1], names[-1] + where]))
    for label, items in lines:
        # A line must not end within an item.
        content = ', '.join(item.replace(' ', '\xa0') for item in items)
        yield textwrap.fill(
            _label(label, content), 80, subsequent_indent=' ' * LABEL_WIDTH,
            break_long_words=False,
            break_on_hyphens=False).replace('\xa0', ' ')


def _list_usage(report):
    """Yield the sold vCPUs of each row, and the CPU usage in Placement."""
    if report['classes'] is not None:
        yield _label('sold', ', '.join(
            '%d of %d %s (%d left)' % (row.sold, row.sellable, name, row.left)
            for name, row in page.make_rows(report['classes']).items()))
    for name in sorted(report['inventory'].keys() & {'PCPU', 'VCPU'}):
        total, reserved, ratio = (report['inventory'][name][key] for key in (
            'total', 'reserved', 'allocation_ratio'))
        used = sum(allocation['resources'].get(name, 0)
                   for allocation in report['allocations'].values())
        yield _label('placement', (
            '%d of %d %s (total %d, reserved %d, allocation ratio %s)' % (
                used, int((total - reserved) * ratio), name, total, reserved,
                ratio)))
