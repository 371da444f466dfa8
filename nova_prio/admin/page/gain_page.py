# SPDX-License-Identifier: Apache-2.0

"""The content of the page of ``nova-prio capacity gain``.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of a host.
"""

from __future__ import annotations

from collections import abc
import typing

#: Width and height of the area of a plot, and its distance from the left and
#: the top edge of the picture, in pixels.
WIDTH, HEIGHT, LEFT, TOP = 500, 240, 60, 12


class Line(typing.NamedTuple):
    """The hosts that are enough for each share of pinned vCPUs.

    ``points`` are (percent of pinned vCPUs, number of hosts) in their order.
    """

    name: str
    points: abc.Sequence[tuple[int, int]]

    def draw(self, most: int) -> str:
        """Return the points of an SVG polyline, as "X,Y X,Y" in pixels.

        :param most: number of hosts at the top of the plot
        """
        return ' '.join('%.1f,%.1f' % (get_x(percent), get_y(hosts, most))
                        for percent, hosts in self.points)


class Plot(typing.NamedTuple):
    """Lines without and with mix for one allocation ratio."""

    title: str
    lines: abc.Sequence[Line]

    @property
    def most(self) -> int:
        """The number of hosts at the top of the plot, at least 1."""
        most = 1
        for line in self.lines:
            for _, hosts in line.points:
                most = max(most, hosts)
        return most

    @property
    def marks(self) -> list[int]:
        """The numbers of hosts at the quarters of the height of the plot."""
        return sorted({self.most * part // 4 for part in range(5)})


class GainPage(typing.NamedTuple):
    """A page: sentences, plots, and a table with the same numbers."""

    title: str
    lead: abc.Sequence[str]
    plots: abc.Sequence[Plot]
    columns: abc.Sequence[str]
    rows: abc.Sequence[abc.Sequence[typing.Any]]


def get_x(percent: float) -> float:
    """Return the distance of a percentage from the left edge, in pixels."""
    return LEFT + WIDTH * percent / 100


def get_y(hosts: int, most: int) -> float:
    """Return the distance of a number of hosts from the top edge, in pixels.

    :param most: number of hosts at the top of the plot
    """
    return TOP + HEIGHT * (1 - hosts / most)
