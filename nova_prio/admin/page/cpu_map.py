# SPDX-License-Identifier: Apache-2.0

"""The map of the CPUs of a host: boxes in lanes, and a table.

A lane is a line of the map. A block is a part of the map, with its lanes.
"""

from __future__ import annotations

import collections
from collections import abc
import itertools
import typing

from nova.virt import hardware

from nova_prio.admin.page import content
from nova_prio.model import cpu_capacity

#: Number of CPUs side by side. A block of this width fits a narrow screen.
BLOCK_CPUS = 16
#: Names of the lanes of a block, from above.
SETS, PINNED, LOW, ORDINARY = 'set', 'pinned', 'low', 'ordinary'
#: Text of a CPU that is pinned, but by no known server, and of a blocked CPU.
HELD, BLOCKED = '?', '!'
#: Such a text -> why the CPU takes no pinned server.
NOTES = {
    HELD: 'held by a move that is not confirmed, or as the sibling of an '
    'isolated thread',
    BLOCKED: 'blocked by a guest on a stale CPU set, or by an orphan guest'}


class Mark(typing.NamedTuple):
    """The content of a CPU in a lane; see Box."""

    kind: str
    text: str
    title: str


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


class CPU(typing.NamedTuple):
    """A CPU of a host.

    ``set_name`` is 'dedicated', 'shared' or ''. ``pinned`` are the servers
    that are pinned there, ``floating`` those that float there. ``note`` is why
    the CPU takes no pinned server, or ''.
    """

    set_name: str
    pinned: tuple[content.GuestOnPage, ...]
    floating: tuple[content.GuestOnPage, ...]
    note: str


class CPUs(typing.NamedTuple):
    """CPUs of one set on which the same servers float; a line of a table.

    ``cpus`` are the numbers as a text. ``pinned`` are the servers that are
    pinned there, each with its CPUs as a text. The other fields are those of
    each CPU.
    """

    cpus: str
    set_name: str
    pinned: list[tuple[content.GuestOnPage, str]]
    floating: list[content.GuestOnPage]
    note: str


def count_cpus(host: content.HostSection) -> int:
    """Return how many CPUs the map of a host has.

    It ends with the last CPU that a CPU set has, or that a guest uses.
    """
    used = host.dedicated | host.shared
    for guest in host.guests:
        used |= guest.pinned | guest.floating
    return 1 + max(used, default=-1)


def get_codes(host: content.HostSection) -> dict[str, str]:
    """Return UUID of a server with pinned vCPUs -> its code on the map.

    A code is one letter, or two if the servers are many.
    """
    return content.assign_codes(
        [guest.uuid for guest in host.guests if guest.pinned])


def draw(host: content.HostSection) -> list[Block]:
    """Return the blocks of the map of a host.

    A block is a part of the map for some CPUs. A lane is a line of a block:
    the CPU sets, the pinned servers, and those that float.
    """
    # UUID of a server -> letters that stand for the server on the map.
    codes = get_codes(host)
    # For each CPU: name of a lane -> Mark of the CPU in this lane.
    all_marks = [_mark_cpu(cpu, codes) for cpu in _read_cpus(host)]
    blocks = []
    for first in range(0, len(all_marks), BLOCK_CPUS):
        of_block = all_marks[first:first + BLOCK_CPUS]
        lanes = {}
        for lane in SETS, PINNED, LOW, ORDINARY:
            boxes = _join(first, [marks.get(lane) for marks in of_block])
            if boxes:
                lanes[lane] = boxes
        blocks.append(Block(first=first, width=len(of_block), lanes=lanes))
    return blocks


def list_cpus(host: content.HostSection) -> list[CPUs]:
    """Return the lines of the table of CPUs of a host.

    Each pinned server has CPUs of its own. CPUs that differ only in the pinned
    server share a line.
    """
    # CPU without pinned servers -> numbers of the CPUs that are like this.
    groups: dict[CPU, set[int]] = collections.defaultdict(set)
    # _read_cpus yields each CPU from 0 on, even if it is in no CPU set.
    for number, cpu in enumerate(_read_cpus(host)):
        unpinned = cpu._replace(pinned=())
        groups[unpinned].add(number)
    lines = []
    for cpu, numbers in groups.items():
        pinned = [(guest, hardware.format_cpu_spec(guest.pinned & numbers))
                  for guest in host.guests if guest.pinned & numbers]
        lines.append(CPUs(
            cpus=hardware.format_cpu_spec(numbers), set_name=cpu.set_name,
            pinned=pinned, floating=list(cpu.floating), note=cpu.note))
    return lines


def _read_cpus(host: content.HostSection) -> abc.Iterator[CPU]:
    """Yield the CPUs of a host, the CPU 0 first.

    A CPU is blocked if it is dedicated, but a guest that should not run there
    uses it. A CPU is held if Nova counts it as pinned, but no server of the
    host is pinned there: a move holds it, or it is the thread sibling of an
    isolated vCPU. No further server is pinned to a blocked or held CPU.
    """
    for number in range(count_cpus(host)):
        set_name = note = ''
        if number in host.dedicated:
            set_name = 'dedicated'
        elif number in host.shared:
            set_name = 'shared'
        if number in host.blocked:
            note = NOTES[BLOCKED]
        elif number in host.held:
            note = NOTES[HELD]
        yield CPU(
            set_name=set_name, note=note,
            pinned=tuple(
                guest for guest in host.guests if number in guest.pinned),
            floating=tuple(
                guest for guest in host.guests if number in guest.floating))


def _mark_cpu(cpu: CPU, codes: abc.Mapping[str, str]) -> dict[str, Mark]:
    """Return the marks of a CPU: name of a lane -> Mark.

    A lane is a line of the map. A Mark is the style, the text and the tooltip
    of the CPU there. A CPU without a pinned server may be blocked, by a guest
    that may not run there, or held, by a move or as the thread sibling of an
    isolated vCPU.

    :param codes: UUID of a server -> its code on the map
    """
    marks = {}
    if cpu.set_name:
        marks[SETS] = Mark(kind=cpu.set_name, text=cpu.set_name,
                           title='in cpu_%s_set' % cpu.set_name)
    if cpu.pinned:
        # Two servers on one CPU are a fault, but are shown. The box has the
        # style of the priority of the first one, which its field ``row`` has:
        # 'high', or 'ordinary' without a priority.
        marks[PINNED] = Mark(
            kind=cpu.pinned[0].row, title=_join_names(cpu.pinned),
            text=','.join(codes[guest.uuid] for guest in cpu.pinned))
    elif cpu.note == NOTES[BLOCKED]:
        marks[PINNED] = Mark(kind='blocked', text=BLOCKED, title=cpu.note)
    elif cpu.note:
        marks[PINNED] = Mark(kind='held', text=HELD, title=cpu.note)
    # Servers that float there, with low priority or without.
    lanes: dict[str, list[content.GuestOnPage]] = {LOW: [], ORDINARY: []}
    for guest in cpu.floating:
        if guest.row == cpu_capacity.LOW:
            lanes[LOW].append(guest)
        else:
            lanes[ORDINARY].append(guest)
    for lane, guests in lanes.items():
        if guests:
            marks[lane] = Mark(kind=lane, text='~%d' % len(guests),
                               title=_join_names(guests))
    return marks


def describe(guest: content.GuestOnPage) -> str:
    """Return the name of a server, and whether it is stopped."""
    if guest.is_stopped:
        return guest.name + ' (stopped)'
    return guest.name


def _join_names(guests: abc.Iterable[content.GuestOnPage]) -> str:
    """Return the descriptions of servers."""
    return ', '.join(describe(guest) for guest in guests)


def _join(first: int, marks: list[Mark | None]) -> list[Box]:
    """Return the boxes of a lane in a block.

    A block is the part of the map for some neighbouring CPUs. A lane is one of
    its lines. CPUs beside each other with the same mark share a Box.

    :param first: number of the first CPU of the block
    :param marks: of the CPUs of the block; None for a CPU without a mark
    """
    boxes = []
    # Position of the next box in the block.
    left = 0
    for mark, group in itertools.groupby(marks):
        width = len(list(group))
        if mark:
            cpus = 'CPU %d' % (first + left)
            if width > 1:
                cpus = 'CPUs %d-%d' % (first + left, first + left + width - 1)
            boxes.append(Box(
                left=left, width=width, kind=mark.kind, text=mark.text,
                title='%s: %s' % (cpus, mark.title)))
        left += width
    return boxes
