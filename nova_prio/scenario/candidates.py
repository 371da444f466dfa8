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

"""Why no host takes a request: what Placement lacks; pure.

Source of the rules: Placement's ``GET /allocation_candidates`` and its
capacity arithmetic (``placement.objects.inventory``, Placement 16).
"""

import dataclasses
from urllib import parse


@dataclasses.dataclass(frozen=True)
class Provider:
    """A resource provider as Placement holds it.

    ``inventories`` is a dict, resource class -> dict of total, reserved,
    allocation_ratio and max_unit; ``usages`` a dict, resource class -> int;
    ``traits`` and ``aggregates`` are sets of str.
    """

    name: str
    uuid: str
    inventories: dict
    usages: dict
    traits: frozenset = frozenset()
    aggregates: frozenset = frozenset()

    def free(self, resource_class):
        """Return what Placement would still give, an int (may be below 0)."""
        inventory = self.inventories.get(resource_class)
        if inventory is None:
            return 0
        capacity = int((inventory['total'] - inventory['reserved'])
                       * inventory['allocation_ratio'])
        return capacity - self.usages.get(resource_class, 0)


class Request:
    """What a query of ``GET /allocation_candidates`` asks for.

    ``resources`` is a dict, resource class -> int, over all groups;
    ``required`` and ``forbidden`` are sets of traits; ``member_of`` is a
    list of sets of aggregates, one of each of which has to fit; ``in_tree``
    is the provider that was asked for, or None.
    """

    def __init__(self, query):
        self.resources = {}
        self.required = set()
        self.forbidden = set()
        self.member_of = []
        self.not_member_of = set()
        self.in_tree = None
        for key, value in parse.parse_qsl(query):
            if key.startswith('resources'):
                for part in value.split(','):
                    name, _, amount = part.rpartition(':')
                    self.resources[name] = (
                        self.resources.get(name, 0) + int(amount))
            elif key in ('required', 'root_required'):
                for trait in value.split(','):
                    if trait.startswith('!'):
                        self.forbidden.add(trait[1:])
                    elif not trait.startswith('in:'):
                        self.required.add(trait)
            elif key == 'member_of':
                aggregates = set(
                    value.removeprefix('!').removeprefix('in:').split(','))
                if value.startswith('!'):
                    self.not_member_of |= aggregates
                else:
                    self.member_of.append(aggregates)
            elif key == 'in_tree':
                self.in_tree = value

    def __str__(self):
        return ', '.join('%s %d' % pair
                         for pair in sorted(self.resources.items()))

    def obstacles(self, provider, aggregate_names):
        """Return what keeps a provider from being a candidate.

        :param aggregate_names: dict, aggregate -> name for the reader
        :returns: list of str, empty where nothing was found
        """
        if self.in_tree not in (None, provider.uuid):
            return ['another host was asked for']

        def named(aggregates):
            return ' or '.join(sorted(
                aggregate_names.get(uuid, uuid) for uuid in aggregates))

        found = ['lacks the trait %s' % trait
                 for trait in sorted(self.required - provider.traits)]
        found += ['has the trait %s, which is ruled out' % trait
                  for trait in sorted(self.forbidden & provider.traits)]
        found += ['is in no aggregate with %s' % named(aggregates)
                  for aggregates in self.member_of
                  if not aggregates & provider.aggregates]
        if self.not_member_of & provider.aggregates:
            found.append('is in the aggregate %s, which is ruled out' % named(
                self.not_member_of & provider.aggregates))
        for name, need in sorted(self.resources.items()):
            free = provider.free(name)
            if name not in provider.inventories:
                found.append('%d %s needed, it has none' % (need, name))
            elif need > free:
                found.append('%d %s needed, %d free of %d' % (
                    need, name, max(free, 0),
                    free + provider.usages.get(name, 0)))
            elif need > provider.inventories[name]['max_unit']:
                found.append('%d %s needed, %d at most for one instance' % (
                    need, name, provider.inventories[name]['max_unit']))
        return found


def explain(query, providers, aggregate_names, refused, own_host=None):
    """Return why no host takes a request, one sentence per provider.

    :param query: str, the query that Placement was asked
    :param providers: list of Provider
    :param aggregate_names: dict, aggregate -> name for the reader
    :param refused: dict, name of a provider -> what a filter has against it
    :param own_host: name of the provider that the server is on, if any: a
        move does not consider it
    :returns: list of str
    """
    request = Request(query)

    def reason(provider):
        if provider.name in refused:
            return refused[provider.name]
        found = request.obstacles(provider, aggregate_names)
        if not found and provider.name == own_host:
            return 'the host the server is on; a move needs another one'
        return '; '.join(found or ['nothing found that speaks against it'])

    return ['%s: %s' % (provider.name, reason(provider))
            for provider in sorted(providers, key=lambda item: item.name)]
