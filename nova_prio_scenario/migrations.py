# SPDX-License-Identifier: Apache-2.0

"""The migrations of a server, as Nova's API shows them.

``api`` is always the client of an administrator. A migration is a dict with
the keys of ``GET /os-migrations``.
"""

import operator

#: States of a migration that has ended, or waits for its confirmation.
SETTLED = ('finished', 'confirmed', 'reverted', 'completed', 'done', 'failed',
           'error', 'cancelled')


def get_newest(api, server_id):
    """Return the newest migration of a server, a dict; empty if none."""
    migrations = api.api_get(
        '/os-migrations?instance_uuid=%s' % server_id).body['migrations']
    return max(migrations, key=operator.itemgetter('id'), default={})


def is_settled(api, server_id):
    """Return whether no migration of a server is in progress."""
    migration = get_newest(api, server_id)
    return not migration or migration['status'] in SETTLED


def get_hosts(api, server_id):
    """Return the names of the hosts of a server, a set.

    A server has two hosts if a move awaits confirmation. The host of a server
    that no compute runs is None.
    """
    hosts = {api.get_server(server_id)['OS-EXT-SRV-ATTR:host']}
    migration = get_newest(api, server_id)
    if migration.get('status') == 'finished':
        hosts |= {migration['source_compute'], migration['dest_compute']}
    return hosts
