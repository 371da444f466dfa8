# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Shows what became of a scenario as text; pure."""

import prettytable

from nova_prio.scenario import cpu_set
from nova_prio.scenario import result as data

#: Hosts up to this size get one numbered box per CPU, on one line each;
#: larger ones one letter per CPU, in groups of eight.
BOXED_CPUS = 20
GROUP = 8
GROUPS_PER_LINE = 8
LABEL_WIDTH = 10

CODES = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'


def text(result, description=None):
    """Return the whole result: servers, refusals, and a map of each host.

    :param result: :class:`nova_prio.scenario.result.Result`
    :param description: what the scenario is about, or None
    """
    parts = [description] if description else []
    parts.append(server_table(result.servers))
    refused = [(fault, server) for server in result.servers
               for fault in server.faults]
    parts += [refusal(server, fault) for fault, server in sorted(
        refused, key=lambda pair: pair[0].step)]
    parts += [host_map(host, result.servers) for host in result.hosts]
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


def server_table(servers):
    """Return the table of the servers."""
    table = prettytable.PrettyTable(
        ['name', 'priority', 'status', 'host', 'CPUs', 'partition'])
    table.align = 'l'
    for server in servers:
        table.add_row([
            server.name, server.priority or '-', server.status,
            server.host or '-', _cpus(server), server.partition or '-'])
    return table.get_string()


def _cpus(server):
    if server.cpus is None:
        return '-'
    parts = []
    if server.pins:
        parts.append('pinned %s' % cpu_set.text(server.pins.values()))
    if server.floats_on:
        parts.append('floats %s' % cpu_set.text(server.floats_on))
    return ', '.join(parts)


def refusal(server, fault):
    """Return why a step was refused: what Nova says, then the hosts."""
    first, *reasons = fault.text.split('\n')
    return '\n'.join(['%s, %s' % (server.name, first),
                      *('  %s' % reason for reason in reasons)])


def host_map(host, servers):
    """Return the CPUs of a host: who is pinned where, and who floats.

    :param host: :class:`nova_prio.scenario.result.Host`
    :param servers: all Servers of the result
    """
    here = [server for server in servers
            if server.host == host.name and server.cpus is not None]
    pinned = [server for server in here if server.pins]
    codes = dict(zip((server.name for server in pinned), _codes(len(pinned))))
    width = max([len(code) for code in codes.values()] or [1])
    rows = list(_pinned_rows(pinned, codes)) + list(_floating_rows(here))
    if host.cpus <= BOXED_CPUS:
        lines = _boxes(host.cpus, rows, max(2, width))
    else:
        lines = _letters(host.cpus, rows, width)
    return '\n'.join(
        [_heading(host), *lines, *_legend(codes, here), *_sold(host)])


def _codes(count):
    """Return that many short marks: A, B, ...; AA, AB, ... beyond 52."""
    if count <= len(CODES):
        return list(CODES[:count])
    return [first + second for first in CODES for second in CODES][:count]


def _kind(server):
    return server.priority or 'ordinary'


def _pinned_rows(pinned, codes):
    """Yield (label, dict of CPU -> mark) for each class that is pinned."""
    for kind in data.ROWS:
        owners = {cpu: codes[server.name] for server in pinned
                  if _kind(server) == kind for cpu in server.pins.values()}
        if owners:
            yield kind, owners


def _floating_rows(here):
    """Yield (label, dict of CPU -> None) for each set that is floated on."""
    for kind, cpus in _floating(here):
        yield kind, dict.fromkeys(cpus)


def _floating(here):
    """Return dict, (class, CPUs that are floated on) -> list of servers."""
    found = {}
    for kind in data.ROWS:
        for server in here:
            if _kind(server) == kind and server.floats_on:
                found.setdefault((kind, server.floats_on), []).append(
                    server.name)
    return found


def _heading(host):
    sets = ['%s %s' % (name, cpu_set.text(cpus)) for name, cpus in
            (('dedicated', host.dedicated), ('shared', host.shared)) if cpus]
    sets += ['%s %s' % domain for domain in host.domains.items()]
    return 'host %s%s: %d CPUs%s' % (
        host.name, '' if host.state == 'up' else ' (%s)' % host.state,
        host.cpus, ', '.join([''] + sets))


def _boxes(cpus, rows, width):
    """Yield a numbered box for each CPU, and a line of boxes for each row."""
    yield _boxed('CPU', [str(cpu) for cpu in range(cpus)], width)
    for label, marks in rows:
        yield _boxed(label, [
            '' if cpu not in marks else marks[cpu] or '~' * width
            for cpu in range(cpus)], width)


def _boxed(label, cells, width):
    return '%s|%s|' % (label.ljust(LABEL_WIDTH), '|'.join(
        cell.rjust(width) for cell in cells))


def _letters(cpus, rows, width):
    """Yield blocks of lines with a mark for each CPU, in groups of eight."""
    per_line = GROUP * max(GROUPS_PER_LINE // width, 1)
    for start in range(0, cpus, per_line):
        block = range(start, min(start + per_line, cpus))
        yield ('CPU'.ljust(LABEL_WIDTH) + ' '.join(
            str(cpu).ljust(GROUP * width) for cpu in block[::GROUP])).rstrip()
        for label, marks in rows:
            if marks.keys().isdisjoint(block):
                continue
            cells = ['.' * width if cpu not in marks
                     else (marks[cpu] or '~' * width).ljust(width)
                     for cpu in block]
            yield label.ljust(LABEL_WIDTH) + ' '.join(
                ''.join(cells[first:first + GROUP])
                for first in range(0, len(cells), GROUP))


def _legend(codes, here):
    """Yield who the marks stand for, and who floats."""
    if codes:
        yield from _wrapped('pinned', ['%s %s' % (code, name)
                                       for name, code in codes.items()])
    for (kind, cpus), names in _floating(here).items():
        yield from _wrapped(
            'floats', names, ' (%s, over %s)' % (kind, cpu_set.text(cpus)))


def _wrapped(label, words, tail=''):
    """Yield a label and words with commas between, in lines of 80 columns."""
    line = label.ljust(LABEL_WIDTH)
    room = 80
    for position, word in enumerate(words):
        word += ', ' if position + 1 < len(words) else tail
        if len(line) + len(word.rstrip()) > room and line.strip():
            yield line.rstrip()
            line = ' ' * LABEL_WIDTH
        line += word
    yield line.rstrip()


def _sold(host):
    """Yield what is sold of each class, and what Placement holds of CPUs."""
    if host.classes is not None:
        yield 'sold'.ljust(LABEL_WIDTH) + ', '.join(
            '%d of %d %s (%d left)' % (
                held['used'], held['sellable'], row, host.left[row])
            for row, held in host.classes.items())
    for name in ('PCPU', 'VCPU'):
        held = host.inventory.get(name)
        if held is not None:
            used = sum(allocation['resources'].get(name, 0)
                       for allocation in host.allocations.values())
            yield 'placement '.ljust(LABEL_WIDTH) + (
                '%d of %d %s (total %d, reserved %d, allocation ratio %s)' % (
                    used, int((held['total'] - held['reserved'])
                              * held['allocation_ratio']), name,
                    held['total'], held['reserved'],
                    held['allocation_ratio']))
