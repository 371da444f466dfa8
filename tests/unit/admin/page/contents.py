# SPDX-License-Identifier: Apache-2.0

"""Contents of pages."""

from nova_prio.admin.page import content
from nova_prio.model import provider_rows

DEDICATED, SHARED = frozenset(range(8)), frozenset(range(8, 12))


def guest(name, row='low', pinned=(), floating=DEDICATED | SHARED, **kwargs):
    """Return a server; its UUID begins with its name."""
    return content.GuestOnPage(**{
        'name': name, 'uuid': name + '-uuid', 'row': row, 'state': 'active',
        'pinned': frozenset(pinned), 'floating': frozenset(floating),
        'flavor': row + '-4', **kwargs})


def host(name='mix1', guests=(), **kwargs):
    """Return the host of the example in the design."""
    return content.HostSection(**{
        'name': name, 'aggregates': ['priority'], 'dedicated': DEDICATED,
        'shared': SHARED, 'guests': list(guests), 'rows': {
            'high': provider_rows.Row(4, 8, 4),
            'low': provider_rows.Row(8, 16, 8),
            'ordinary': provider_rows.Row(0, 8, 8)}, **kwargs})


def page(*hosts, **kwargs):
    """Return a page without steps."""
    return content.Page(**{
        'title': 'Capacity', 'steps': [content.PageStep(list(hosts))],
        'data': [], **kwargs})
