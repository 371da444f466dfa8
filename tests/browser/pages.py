# SPDX-License-Identifier: Apache-2.0

"""Examples of pages."""

import collections
import json
import pathlib
import subprocess
import sys

from nova_prio.admin.page import content
from nova_prio.model import cpu_capacity

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(sys.executable).with_name('nova-prio')


def play_seed(directory):
    """Play the worked example.

    :param directory: of the page
    :returns: (path of the page, JSON document of the same run)
    """
    path = directory / 'seed.html'
    done = subprocess.run(
        [PROGRAM, 'scenario', 'play', '--format', 'json', '--html', path,
         ROOT / 'examples' / 'seed.yaml'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout)


def make_host(number, cpus=12):
    """Return an example host, of which two thirds of the CPUs are dedicated.

    It sells as a mix host with a CPU allocation ratio of 2.0. The number
    decides the number of its servers.
    """
    dedicated = frozenset(range(cpus * 2 // 3))
    shared = frozenset(range(cpus * 2 // 3, cpus))
    highs = min(number % 4, len(dedicated) // 4)
    lows = 1 + number % 3
    guests = [
        *(_make_guest('db', number, index, 'high',
                      pinned=range(4 * index, 4 * index + 4))
          for index in range(highs)),
        *(_make_guest('batch', number, index, 'low',
                      floating=dedicated | shared) for index in range(lows)),
        _make_guest('web', number, 0, 'ordinary', floating=shared)]
    sellable = cpu_capacity.calculate_sellable(
        len(dedicated), len(shared), cpu_capacity.parse_ratio(2), mix=True)
    used = cpu_capacity.calculate_used(4 * highs, 4 * lows, 2)
    remaining = cpu_capacity.calculate_remaining(sellable, used)
    return content.HostSection(
        name='compute-%d' % number,
        aggregates=['priority', 'rack-%d' % (number % 10)],
        dedicated=dedicated, shared=shared, guests=guests,
        rows=content.make_rows(used, sellable, remaining),
        facts=[('CPU allocation ratio', '2.0'), ('Mix', 'on')],
        units=remaining.high // 8,
        shortage='' if remaining.high >= 8 else
        '%d high vCPUs left, 8 needed' % remaining.high)


def _make_guest(name, number, index, row, pinned=(), floating=()):
    """Return a server of a host."""
    return content.GuestOnPage(
        name='%s-%d-%d' % (name, number, index),
        uuid='%08x-0000-4000-8000-%s%06d' % (number, row[:3].encode().hex(),
                                             index),
        row=row, state='active', pinned=frozenset(pinned),
        floating=frozenset(floating), flavor=row + '-4')


def make_step(hosts):
    """Return the step of a page with hosts that share no provider."""
    units = collections.Counter()
    for host in hosts:
        for name in host.aggregates:
            units[name] += host.units
    return content.PageStep(hosts, units=units)
