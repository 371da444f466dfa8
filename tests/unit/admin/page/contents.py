# SPDX-License-Identifier: Apache-2.0

"""Contents of pages."""

from nova_prio.admin.page import content

DEDICATED, SHARED = frozenset(range(8)), frozenset(range(8, 12))


def guest(name, row='low', pinned=(), floating=DEDICATED | SHARED, **kwargs):
    """Return a server; its UUID begins with its name."""
    return content.Guest(**{
        'name': name, 'uuid': name + '-uuid', 'row': row, 'state': 'active',
        'pinned': frozenset(pinned), 'floating': frozenset(floating),
        'flavor': row + '-4', **kwargs})


def host(name='mix1', guests=(), **kwargs):
    """Return the host of the example in the design."""
    return content.HostSection(**{
        'name': name, 'aggregates': ['priority'], 'dedicated': DEDICATED,
        'shared': SHARED, 'guests': list(guests), 'rows': {
            'high': content.Row(4, 8, 4), 'low': content.Row(8, 16, 8),
            'ordinary': content.Row(0, 8, 8)}, **kwargs})


def page(*hosts, **kwargs):
    """Return a page without steps."""
    return content.Page(**{
        'title': 'Capacity', 'steps': [content.Step(list(hosts))],
        'data': [], **kwargs})
