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


"""What mends a finding: writes to Placement, each of them all or nothing.

None of them touches a guest, nor an instance that is changed or moved, nor
what somebody else has written since it was read.
"""

import typing

from nova_prio import holdings


class Mend(typing.NamedTuple):
    """Let an instance hold what it needs at its host."""

    provider: str
    host: str
    uuid: str

    def apply(self, context, client):
        """Do it.

        :param context: nova.context.RequestContext of the cell of the host
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :raises holdings.NotMended: where it was not done
        """
        if holdings.mend(context, client, self.provider, self.host,
                         self.uuid) is None:
            raise holdings.NotMended('It is changed or moved right now')


class TakeAway(typing.NamedTuple):
    """Take away what something holds that has no use for it.

    ``held`` is what was found at the provider of the host; ``everywhere``
    whether what it holds elsewhere goes, too; ``is_still_so`` a function
    without arguments that looks again.
    """

    provider: str
    uuid: str
    held: dict
    everywhere: bool
    is_still_so: object

    def apply(self, context, client):
        """Do it; see :meth:`Mend.apply`.

        As there, what is held is read before that look: what begins to need
        it later changes the generation of the consumer.
        """
        found = client.get_allocs_for_consumer(context, self.uuid)
        there = found['allocations'].get(self.provider)
        if (there is None or there['resources'] != self.held or
                not self.is_still_so()):
            raise holdings.NotMended('It has been changed since it was read')
        gone = set(found['allocations']) if self.everywhere else {
            each['uuid'] for each in client.get_providers_in_tree(
                context, self.provider)}
        left = {uuid: resources
                for uuid, resources in found['allocations'].items()
                if uuid not in gone}
        if not holdings.put(context, client, '/allocations/' + self.uuid,
                            {**found, 'allocations': left}):
            raise holdings.NotMended(
                'Others change what it holds at the same time')


class Write(typing.NamedTuple):
    """Replace the inventories, the traits or the aggregates of a host.

    ``what`` names which, ``there`` is what was read, ``wanted`` all of what is
    written.
    """

    provider: str
    what: str
    there: object
    wanted: object

    def apply(self, context, client):
        """Do it; see :meth:`Mend.apply`."""
        if self.what == 'traits':
            for trait in set(self.wanted) - set(self.there):
                client.put('/traits/' + trait, None, version='1.6')
        url = '/resource_providers/%s/%s' % (self.provider, self.what)
        found = holdings.answer(client, url)
        if found[self.what] != self.there or not holdings.put(
                context, client, url, {**found, self.what: self.wanted}):
            raise holdings.NotMended(
                'Somebody else has changed the %s of the host' % self.what)
