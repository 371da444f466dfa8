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

"""The migrations of a server, as Nova's API shows them."""

#: States of a migration that is over, or waits to be confirmed.
SETTLED = ('finished', 'confirmed', 'reverted', 'completed', 'done', 'failed',
           'error', 'cancelled')


def newest(api, server_id):
    """Return the newest migration of a server, a dict; empty for none.

    :param api: client of an administrator
    """
    found = api.api_get(
        '/os-migrations?instance_uuid=%s' % server_id).body['migrations']
    return max(found, key=lambda migration: migration['id'], default={})


def newest_is_settled(api, server_id):
    """Return whether no migration of a server is under way."""
    return newest(api, server_id).get('status', 'done') in SETTLED


def hosts_of(api, server_id):
    """Return the set of hosts that a server is on.

    There are two while a resize or migration waits to be confirmed; that of
    a shelved server is None.
    """
    hosts = {api.get_server(server_id)['OS-EXT-SRV-ATTR:host']}
    migration = newest(api, server_id)
    if migration.get('status') == 'finished':
        hosts |= {migration['source_compute'], migration['dest_compute']}
    return hosts
