# SPDX-License-Identifier: Apache-2.0

"""The map of the CPUs of a host: boxes in lanes, and a table."""

from __future__ import annotations

from collections import abc
import itertools
import typing

from nova.virt import hardware

from nova_prio.admin.page import content
from nova_prio.model import capacity

#: Number of CPUs side by side. A block of this width fits a narrow screen.
BLOCK_CPUS = 16
#: Names of the lanes of a block, from above.
SETS, PINNED, LOW, ORDINARY = 'set', 'pinned', 'low', 'ordinary'
#: Text of a CPU that is pinned, but by no known server, and of a blocked CPU.
HELD, BLOCKED = '?', '!'


class Box(typing.NamedTuple):
    """Neighbouring CPUs of a block with the same content.

    ``left`` is the position in the block. ``kind`` is the style of the box:
    dedicated, shared, high, low, ordinary, held or blocked. ``title`` explains
    the box.
    """

    left: int
    width: int
    kind: str
    text: str
    title: str


class Block(typing.NamedTuple):
    """A part of the CPUs of a host.

    ``lanes`` is the name of a lane -> its boxes, without the empty lanes.
    """

    first: int
    width: int
    lanes: dict[str, list[Box]]

    @property
    def last(self) -> int:
        """The number of the last CPU."""
        return self.first + self.width - 1


class CPUs(typing.NamedTuple):
    """CPUs of one set on which the same servers float; a line of a table.

    ``pinned`` are the servers that are pinned there, each with its CPUs as a
    text. ``note`` is a sentence or ''.
    """

    cpus: str
    set_name: str
    pinned: list[tuple[content.Guest, str]]
    floating: list[content.Guest]
    note: str


def count_cpus(host: content.HostSection) -> int:
    """Return the number of CPUs up to the last one in use."""
    return 1 + max(frozenset().union(
        host.dedicated, host.shared, *(
            guest.pinned | guest.floating for guest in host.guests)),
        default=-1)


def get_codes(host: content.HostSection) -> dict[str, str]:
    """Return UUID of a server with pinned vCPUs -> its code on the map."""
    return content.assign_codes(
        [guest.uuid for guest in host.guests if guest.pinned])


def draw(host: content.HostSection) -> list[Block]:
    """Return the blocks of the map of a host."""
    codes = get_codes(host)
    total = count_cpus(host)
    marks = {lane: _get_marks(host, codes, lane, total)
             for lane in (SETS, PINNED, LOW, ORDINARY)}
    blocks = []
    for first in range(0, total, BLOCK_CPUS):
        cpus = range(first, min(first + BLOCK_CPUS, total))
        lanes = {lane: list(_join(cpus, of_cpu))
                 for lane, of_cpu in marks.items()}
        blocks.append(Block(first, len(cpus), {
            lane: boxes for lane, boxes in lanes.items() if boxes}))
    return blocks


def list_cpus(host: content.HostSection) -> list[CPUs]:
    """Return the lines of the table of CPUs of a host."""
    lines: dict[tuple[typing.Any, ...], set[int]] = {}
    for cpu in range(count_cpus(host)):
        key = (_get_set(host, cpu), _find_guests(host, cpu, 'floating'),
               _get_note(host, cpu))
        lines.setdefault(key, set()).add(cpu)
    return [CPUs(
        hardware.format_cpu_spec(cpus), set_name,
        [(guest, hardware.format_cpu_spec(guest.pinned & cpus))
         for guest in host.guests if guest.pinned & cpus],
        list(floating), note)
        for (set_name, floating, note), cpus in lines.items()]


def _get_set(host: content.HostSection, cpu: int) -> str:
    """Return the name of the CPU set of a CPU, or ''."""
    if cpu in host.dedicated:
        return 'dedicated'
    return 'shared' if cpu in host.shared else ''


def _find_guests(host: content.HostSection, cpu: int, attribute: str,
                 ) -> tuple[content.Guest, ...]:
    """Return the servers of a CPU.

    :param attribute: 'pinned' or 'floating'
    """
    return tuple(guest for guest in host.guests
                 if cpu in getattr(guest, attribute))


def _get_note(host: content.HostSection, cpu: int) -> str:
    """Return why a CPU takes no pinned server, or ''."""
    if cpu in host.blocked:
        return 'blocked by a guest on a stale CPU set, or by an orphan guest'
    if cpu in host.held:
        return ('held by a move that is not confirmed, or as the sibling of '
                'an isolated thread')
    return ''


def _get_marks(host: content.HostSection,
               codes: abc.Mapping[str, str], lane: str,
               total: int) -> dict[int, tuple[str, str, str]]:
    """Return CPU -> kind, text and title of a lane.

    :param total: number of CPUs of the map
    """
    marks = {}
    for cpu in range(total):
        mark = (_mark_set(host, cpu) if lane == SETS else
                _mark_pinned(host, codes, cpu) if lane == PINNED else
                _mark_floating(host, cpu, lane))
        if mark:
            marks[cpu] = mark
    return marks


def _mark_set(host: content.HostSection,
              cpu: int) -> tuple[str, str, str] | None:
    """Return the mark of a CPU in the lane of CPU sets, or None."""
    name = _get_set(host, cpu)
    return (name, name, 'in cpu_%s_set' % name) if name else None


def _mark_pinned(host: content.HostSection,
                 codes: abc.Mapping[str, str], cpu: int,
                 ) -> tuple[str, str, str] | None:
    """Return the mark of a CPU in the lane of pinned servers, or None."""
    guests = _find_guests(host, cpu, 'pinned')
    if guests:
        return (guests[0].row, ','.join(codes[each.uuid] for each in guests),
                ', '.join(map(describe, guests)))
    note = _get_note(host, cpu)
    if not note:
        return None
    is_blocked = cpu in host.blocked
    return ('blocked' if is_blocked else 'held',
            BLOCKED if is_blocked else HELD, note)


def _mark_floating(host: content.HostSection, cpu: int, lane: str,
                   ) -> tuple[str, str, str] | None:
    """Return the mark of a CPU in a lane of servers that float, or None."""
    guests = [guest for guest in _find_guests(host, cpu, 'floating')
              if (guest.row == capacity.LOW) == (lane == LOW)]
    if not guests:
        return None
    return lane, '~%d' % len(guests), ', '.join(map(describe, guests))


def describe(guest: content.Guest) -> str:
    """Return the name of a server, and whether it is stopped."""
    return guest.name + (' (stopped)' if guest.is_stopped else '')


def _join(cpus: range, marks: abc.Mapping[int, tuple[str, str, str]],
          ) -> abc.Iterator[Box]:
    """Yield a Box for neighbouring CPUs of a block with the same mark."""
    left = 0
    for mark, found in itertools.groupby(cpus, key=marks.get):
        width = len(list(found))
        if mark:
            kind, text, title = mark
            first, last = cpus[left], cpus[left + width - 1]
            yield Box(left, width, kind, text, 'CPU%s: %s' % (
                ' %d' % first if first == last else 's %d-%d' % (first, last),
                title))
        left += width
