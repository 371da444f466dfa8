# SPDX-License-Identifier: Apache-2.0

"""The content of a page as plain data.

A row is a number of vCPUs that a host may sell, and how many of them are sold.
A host has three rows: 'high', 'low' and 'ordinary'; see
:mod:`nova_prio.model.cpu_capacity`.
"""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import functools
import string
import typing

from nova_prio.model import cpu_capacity
from nova_prio.model import low_supply
from nova_prio.model import provider_rows

#: Problem of a host that no aggregate marks for servers with a priority.
NO_PRIORITY_AGGREGATE = (
    'This host is in no aggregate with priority_mix=true or priority=true.')

NO_VCPUS = provider_rows.Row(sold=0, sellable=0, left=0)


@dataclasses.dataclass(frozen=True)
class GuestOnPage:
    """A server on a host.

    ``row`` is 'high', 'low' or 'ordinary'. ``pinned`` are the CPUs to which
    vCPUs are pinned, ``floating`` those on which the other vCPUs float.
    ``state`` is the state in Nova.
    """

    name: str
    uuid: str
    row: str
    state: str
    pinned: frozenset[int]
    floating: frozenset[int]
    flavor: str = ''
    is_stopped: bool = False


@dataclasses.dataclass(frozen=True)
class HostSection:
    """A host with its servers.

    ``dedicated`` and ``shared`` are its CPU sets. ``rows`` is the name of a
    row -> Row, empty if the host runs another compute driver. ``facts`` are
    names and values to show. ``held`` are the CPUs that are pinned, but by
    none of the ``guests``; ``blocked`` are those of the CapacityReport.
    ``problems`` are sentences. ``units`` is the number of servers of the
    flavor that fit, None without a flavor. ``shortage`` tells why no server
    fits. ``is_open`` tells whether the scheduler may choose the host, and
    ``takes_priority`` whether for servers with a priority. If one of them is
    False, ``problems`` has the reason, unless the host has no rows.
    """

    name: str
    aggregates: list[str]
    dedicated: frozenset[int]
    shared: frozenset[int]
    rows: dict[str, provider_rows.Row]
    guests: list[GuestOnPage]
    facts: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    held: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    problems: list[str] = dataclasses.field(default_factory=list)
    units: int | None = None
    shortage: str = ''
    is_open: bool = True
    takes_priority: bool = True

    def is_open_for(self, row: str) -> bool:
        """Return whether the scheduler may choose the host for a server.

        :param row: priority of the server, 'high' or 'low', or 'ordinary'
        """
        return self.is_open and (
            self.takes_priority or row not in cpu_capacity.PRIORITIES)

    @property
    def search_text(self) -> str:
        """The names by which a reader finds the host, in lower case."""
        names = [self.name] + self.aggregates
        for guest in self.guests:
            names += [guest.name, guest.uuid]
        return ' '.join(names).lower()


class RefusedServers(typing.NamedTuple):
    """Why servers were refused.

    ``servers`` are their names, ``message`` is that of Nova, ``reasons`` has a
    sentence for each host. ``heading`` is a line above the reasons, or ''.
    """

    servers: list[str]
    message: str
    reasons: list[str]
    heading: str = ''


@dataclasses.dataclass(frozen=True)
class PageStep:
    """The hosts after a step of a scenario.

    ``title`` is the step, ``outcome`` its end. ``unplaced`` are the servers
    without a host. ``units`` is name of an aggregate -> number of servers of
    the flavor that fit on its hosts together.
    """

    hosts: list[HostSection]
    title: str = ''
    outcome: str = ''
    refusals: list[RefusedServers] = dataclasses.field(default_factory=list)
    unplaced: list[GuestOnPage] = dataclasses.field(default_factory=list)
    units: abc.Mapping[str, int] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def aggregates(self) -> dict[str, Sum]:
        """Name of an aggregate -> Sum of its hosts."""
        return summarize(self.hosts)

    @property
    def search_text(self) -> str:
        """The words by which a reader finds the step, in lower case."""
        words = [self.title, self.outcome]
        for refusal in self.refusals:
            words += refusal.servers
        return ' '.join(words).lower()


class Sum(typing.NamedTuple):
    """The number of hosts of an aggregate, and their sums; see HostSection."""

    hosts: int
    rows: dict[str, provider_rows.Row]


@dataclasses.dataclass(frozen=True)
class Page:
    """A page: one step without a title, or the steps of a scenario.

    ``data`` is the result of the same run for ``-f json``. ``flavor`` is the
    name of the flavor of ``HostSection.units``, ``flavor_row`` its row.
    ``lead`` are lines below the title, ``notes`` are sentences about the
    source of the numbers, and ``warnings`` are for the operator.
    """

    title: str
    steps: list[PageStep]
    data: typing.Any
    lead: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    flavor: str | None = None
    flavor_row: str = 'ordinary'


def make_rows(used: cpu_capacity.Rows, sellable: cpu_capacity.Rows,
              left: cpu_capacity.Rows) -> dict[str, provider_rows.Row]:
    """Return name of a row -> Row: the numbers of vCPUs of one kind.

    The arguments are the used, the sellable and the remaining vCPUs of each
    row: 'high' (pinned), 'low' (all others), 'ordinary' (those without low
    priority). An ordinary vCPU counts in two rows. The low row is named after
    the instances that it alone limits.
    """
    rows = {}
    for name in cpu_capacity.Rows._fields:
        rows[name] = provider_rows.Row(
            sold=getattr(used, name), sellable=getattr(sellable, name),
            left=getattr(left, name))
    return rows


def format_low_supply(supply: low_supply.LowSupply | None) -> str:
    """Return the CPU time that low-priority guests can get, as a text.

    The part of the time that these guests wait for a CPU is in parentheses.
    """
    if supply is None:
        return 'unknown'
    wait = 'unknown'
    if supply.wait_percent is not None:
        wait = '%d %%' % supply.wait_percent
    return '%.1f (%s)' % (supply.cpus, wait)


def assign_codes(names: abc.Sequence[str]) -> dict[str, str]:
    """Return name -> code, which stands for the name on a map of CPUs.

    The codes are A, B, ... z. For more than 52 names, all have two letters:
    AA, AB, ...
    """
    letters = string.ascii_uppercase + string.ascii_lowercase
    needs_two_letters = len(names) > len(letters)
    codes = {}
    for number, name in enumerate(names):
        first, last = divmod(number, len(letters))
        codes[name] = letters[last]
        if needs_two_letters:
            codes[name] = letters[first] + letters[last]
    return codes


def summarize(hosts: abc.Iterable[HostSection]) -> dict[str, Sum]:
    """Return name of an aggregate -> Sum of its hosts, sorted by name.

    The Sum has the numbers of vCPUs of each row: 'high', 'low' and 'ordinary'.
    """
    # Name of an aggregate -> for each of its hosts, the rows by name.
    members = collections.defaultdict(list)
    for host in hosts:
        for name in host.aggregates:
            members[name].append(host.rows)
    return {name: Sum(hosts=len(rows), rows=add_up(rows))
            for name, rows in sorted(members.items())}


def add_up(hosts: abc.Iterable[dict[str, provider_rows.Row]],
           ) -> dict[str, provider_rows.Row]:
    """Return the sums of the rows of hosts.

    :param hosts: for each host, kind of vCPUs ('high', 'low' or 'ordinary') ->
        numbers of vCPUs; empty if the host runs another compute driver
    """
    sums: dict[str, provider_rows.Row] = {}
    for rows in hosts:
        for name, row in rows.items():
            sums[name] = sums.get(name, NO_VCPUS).add(row)
    return sums
