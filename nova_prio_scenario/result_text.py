# SPDX-License-Identifier: Apache-2.0

"""The result of a scenario as text; pure.

The text has a map of each host. Its lines are the rows of the host: the
servers of one class, 'high', 'low' or 'ordinary', on the CPUs of the host. A
mark is the text of one CPU in a line.
"""

import collections
import operator
import textwrap

from nova_prio.admin.page import content
from nova_prio.cmd import colors
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
#: Row of a map to its color.
COLORS = {'high': colors.CYAN, 'low': colors.MAGENTA}


def format_result(result, hosts, paint=colors.leave):
    """Return the whole result: servers, refusals, and a map of each host.

    :param result: :class:`nova_prio_scenario.result.Result`
    :param hosts: list of dicts, the hosts of the scenario file
    :param paint: function that returns a text in a color
    """
    parts = [format_servers(result.servers, paint)]
    parts.extend(format_faults(result, paint))
    for host, report in zip(hosts, result.hosts):
        parts.append(draw_host(host, report, result.servers, paint))
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


def summarize(outcomes, paint=colors.leave):
    """Return the outcomes of a step as text.

    :param outcomes: list with an outcome for each server or host
    :param paint: function that returns a text in a color
    """
    parts = []
    for outcome, count in collections.Counter(outcomes).items():
        text = outcome
        if len(outcomes) > 1:
            text = '%d %s' % (count, outcome)
        color = colors.RED if outcome == 'refused' else None
        parts.append(paint(text, color))
    return ', '.join(parts)


def format_servers(servers, paint=colors.leave):
    """Return the table of the servers."""
    lines = []
    for server in servers:
        cpus = ', '.join(_name_cpus(pinned=server.pinned_on,
                                    floats=server.floats_on))
        lines.append([
            server.name, server.priority or '-', server.status or '-',
            server.host or '-', cpus or '-', server.partition or '-'])
    return tables.format_table(
        ['name', 'priority', 'status', 'host', 'CPUs', 'partition'], lines,
        paint=paint)


def format_faults(result, paint=colors.leave):
    """Yield the refusals by step, with the servers that share each one.

    :param result: :class:`nova_prio_scenario.result.Result`
    """
    names = {}  # (step, fault) to names
    for name, faults in data.list_faults(
            result.servers, result.host_faults):
        for refusal in faults.items():
            names.setdefault(refusal, []).append(name)
    for refusal in sorted(names, key=operator.itemgetter(0)):
        _, fault = refusal
        indented_fault = fault.replace('\n', '\n  ')
        # A fault begins with its step, as in "step 3 (create): ".
        step, end, reason = indented_fault.partition('):')
        subject = '%s, %s' % (', '.join(names[refusal]), step + end)
        yield paint(subject, colors.RED) + reason


def _name_cpus(**cpu_sets):
    """Return texts such as "shared 8-11", without the empty sets.

    :param cpu_sets: dict, name to CPU numbers
    """
    return ['%s %s' % (name, data.format_cpus(cpus))
            for name, cpus in cpu_sets.items() if cpus]


def draw_host(host, report, servers, paint=colors.leave):
    """Return a map of the CPUs of a host, with the servers on each CPU.

    Each server with pinned vCPUs gets a letter, its code. Servers that float
    on a CPU are drawn as "~". A stopped server keeps its CPUs.

    :param host: dict, the host in the scenario file
    :param report: dict, the host in the result
    :param servers: all Servers of the result
    :param paint: function that returns a text in a color
    """
    guests = [server for server in servers
              if server.host == host['name'] and server.cpus is not None]
    codes = content.assign_codes([
        _name_guest(guest) for guest in guests if guest.pinned_on])
    pinned = {}  # row to dict of CPU to code
    floating = {}  # (row, CPUs) to names of servers
    # The order of the rows is alphabetical: high, low, ordinary.
    for guest in sorted(guests, key=operator.attrgetter('row')):
        name = _name_guest(guest)
        for cpu in guest.pinned_on:
            pinned.setdefault(guest.row, {})[cpu] = codes[name]
        if guest.floats_on:
            key = (guest.row, guest.floats_on)
            floating.setdefault(key, []).append(name)
    if host['cpus'] <= BOXED_CPUS:
        draw, width = _draw_boxes, BOX_WIDTH
    else:
        code_widths = [len(code) for code in codes.values()]
        draw, width = _draw_letters, max(code_widths, default=1)
    marked_rows = list(pinned.items())
    for row, cpus in floating:
        marked_rows.append((row, dict.fromkeys(cpus, '~' * width)))
    lines = [', '.join(_describe(host, report))]
    for row, line in draw(host['cpus'], width, marked_rows):
        lines.append(paint(line, COLORS.get(row)))
    lines.extend(_list_names(codes, floating))
    lines.extend(_list_usage(report, paint))
    return '\n'.join(lines)


def _name_guest(server):
    """Return the name of a server on the map."""
    if server.status == 'SHUTOFF':
        return server.name + ' (stopped)'
    return server.name


def _describe(host, report):
    """Yield the name and state, the CPU sets and the domains of a host.

    A domain is a failure domain: the value of a key of aggregate metadata.

    :param host: dict, the host in the scenario file
    :param report: dict, the host in the result
    """
    states = []
    if report['state'] == 'down':
        states.append('down')
    if report['status'] == 'disabled':
        states.append('disabled')
    name = host['name']
    if states:
        name = '%s (%s)' % (name, ', '.join(states))
    yield 'host %s: %d CPUs' % (name, host['cpus'])
    # A step may have changed the sets of the file.
    for key in ('dedicated', 'shared'):
        if report[key]:
            cpus = data.parse_cpus(report[key])
            yield '%s %s' % (key, data.format_cpus(cpus))
    for domain in report['domains'].items():
        yield '%s %s' % domain


def _label(label, text):
    """Return a line of the map that begins with a label."""
    return label.ljust(LABEL_WIDTH) + text


def _draw_boxes(cpus, width, marked_rows):
    """Yield (label, line) of numbered boxes, then of the boxes of each row.

    A line has one box for each CPU.

    :param cpus: number of CPUs
    :param width: number of characters of a mark
    :param marked_rows: list of (row, dict of CPU to mark)
    """
    numbers = {cpu: str(cpu) for cpu in range(cpus)}
    for label, marks in [('CPU', numbers)] + marked_rows:
        boxes = [marks.get(cpu, '').rjust(width) for cpu in range(cpus)]
        yield label, _label(label, '|%s|' % '|'.join(boxes))


def _draw_letters(cpus, width, marked_rows):
    """Yield (label, line) with a mark for each CPU, in groups of eight.

    The arguments are those of :func:`_draw_boxes`.
    """
    per_block = GROUP * max(GROUPS_PER_LINE // width, 1)
    for start in range(0, cpus, per_block):
        block = range(start, min(start + per_block, cpus))
        # The first CPU of each group is above the group.
        numbers = [str(first).ljust(GROUP * width) for first in block[::GROUP]]
        yield 'CPU', _label('CPU', ' '.join(numbers)).rstrip()
        for row, marks in marked_rows:
            if not marks.keys().isdisjoint(block):
                text = ''.join(marks.get(cpu, '.' * width) for cpu in block)
                groups = textwrap.wrap(text, GROUP * width)
                yield row, _label(row, ' '.join(groups))


def _list_names(codes, floating):
    """Yield the names of the servers on the map, in lines of 80 columns.

    :param codes: dict, name of a server with pinned vCPUs to its code
    :param floating: dict, (row, CPUs) to names of the servers that float there
    """
    if codes:
        yield _fill('pinned', [
            '%s %s' % (code, name) for name, code in codes.items()])
    for (row, cpus), names in floating.items():
        last = '%s (%s, over %s)' % (names[-1], row, data.format_cpus(cpus))
        yield _fill('floats', names[:-1] + [last])


def _fill(label, items):
    """Return a label and texts, in lines of 80 columns.

    :param items: list of texts
    """
    # A line must not end within an item.
    unbroken_items = [item.replace(' ', '\xa0') for item in items]
    text = textwrap.fill(
        _label(label, ', '.join(unbroken_items)), 80,
        subsequent_indent=' ' * LABEL_WIDTH, break_long_words=False,
        break_on_hyphens=False)
    return text.replace('\xa0', ' ')


def _format_usage(used, total, name, paint):
    """Return a number of used vCPUs; it is red if it is too large."""
    color = None
    if used > total:
        color = colors.RED
    return paint('%d of %d %s' % (used, total, name), color)


def _list_usage(report, paint):
    """Yield the sold vCPUs of each row, and the CPU usage in Placement.

    A vCPU is sold if a server has it.

    :param report: dict, the host in the result
    :param paint: function that returns a text in a color
    """
    if report['classes'] is not None:
        usage = []
        for name, row in page.make_rows(report['classes']).items():
            sold = _format_usage(row.sold, row.sellable, name, paint)
            usage.append('%s (%d left)' % (sold, row.left))
        yield _label('sold', ', '.join(usage))
    for name in sorted(report['inventory'].keys() & {'PCPU', 'VCPU'}):
        inventory = report['inventory'][name]
        total, reserved = inventory['total'], inventory['reserved']
        ratio = inventory['allocation_ratio']
        used = sum(allocation['resources'].get(name, 0)
                   for allocation in report['allocations'].values())
        sellable = int((total - reserved) * ratio)
        usage_text = _format_usage(used, sellable, name, paint)
        yield _label('placement', (
            '%s (total %d, reserved %d, allocation ratio %s)' % (
                usage_text, total, reserved, ratio)))
