# SPDX-License-Identifier: Apache-2.0

"""Why a service does not start, and why no host takes a request.

The reason of a filter for each host, and the query to Placement, are only
known while the request is decided: :class:`SchedulerWatch` listens. The rest
is computed as Placement does it (``GET /allocation_candidates`` and
``placement.objects.inventory``, Placement 16).
"""

import collections
import contextlib
import dataclasses
import logging
from urllib import parse

import fixtures
from nova.scheduler.client import report
from nova.scheduler import filters

PRIORITY_FILTER_LOGGER = 'nova_prio.scheduler.filters.priority_filter'


def _listen(name, least, hear, **kwargs):
    """Return a fixture that passes the records of a logger to a function.

    :param least: level of the records that are passed
    """
    handler = logging.Handler(least)
    handler.emit = hear
    return fixtures.LogHandler(handler, name, nuke_handlers=False, **kwargs)


@contextlib.contextmanager
def to_start(error):
    """Raise an error if a service exits because it refuses to start.

    :param error: function: (last critical message of this package) -> error
    """
    said = [None]
    with _listen('nova_prio', logging.CRITICAL,
                 lambda record: said.append(record.getMessage())):
        try:
            yield
        except SystemExit as exc:
            raise error(said[-1]) from exc


class SchedulerWatch(fixtures.Fixture):
    """Keeps why hosts were refused since the last :meth:`clear`.

    ``query`` is the last query to Placement, or None; ``has_candidates``
    whether Placement answered with any.
    """

    def _setUp(self):
        self.clear()
        self.useFixture(_listen(PRIORITY_FILTER_LOGGER, logging.DEBUG,
                                self._hear, level=logging.DEBUG))
        for owner, name, watched in (
                (filters.BaseHostFilter, '_filter_one', self._filter_one),
                (report.SchedulerReportClient, 'get_allocation_candidates',
                 self._get_candidates)):
            self.useFixture(fixtures.MockPatchObject(
                owner, name, watched(getattr(owner, name))))

    def clear(self):
        """Forget all."""
        self.query = None
        self.has_candidates = False
        self._removed_by = {}
        self._details = {}

    def _hear(self, record):
        if isinstance(record.args, dict) and 'refusal' in record.args:
            said, host = record.args['refusal'], record.args['host']
            # PriorityFilter overrides filter_all, which calls _filter_one.
            self._removed_by[host] = 'PriorityFilter'
            self._details[host] = '%s (%s)' % (said.detail, said.reason)

    def _filter_one(self, stock):
        def filter_one(host_filter, host_state, spec):
            passes = stock(host_filter, host_state, spec)
            if passes:
                self._removed_by.pop(host_state.host, None)
            else:
                self._removed_by[host_state.host] = type(host_filter).__name__
            return passes

        return filter_one

    def _get_candidates(self, stock):
        def get_allocation_candidates(client, context, resources):
            answer = stock(client, context, resources)
            self.query = resources.to_querystring()
            self.has_candidates = bool(answer and answer[0])
            return answer

        return get_allocation_candidates

    def refusals(self):
        """Return a dict, host -> sentence, of those that a filter refused."""
        return {host: self._details[host]
                if name == 'PriorityFilter' and host in self._details
                else 'removed by %s' % name
                for host, name in self._removed_by.items()}


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
        """Return the free amount of a resource class, negative if oversold."""
        inventory = self.inventories[resource_class]
        return int((inventory['total'] - inventory['reserved'])
                   * inventory['allocation_ratio']
                   ) - self.usages.get(resource_class, 0)


class Request:
    """The query of a ``GET /allocation_candidates``.

    ``resources`` is a dict, resource class -> int, over all groups;
    ``required`` and ``forbidden`` are sets of traits; ``member_of`` is a
    list of sets of aggregates, of each of which the provider must be in one;
    ``in_tree`` is the uuid of the only provider allowed, or None.
    """

    def __init__(self, query):
        self.resources = collections.Counter()
        self.required, self.forbidden = set(), set()
        self.member_of, self.not_member_of = [], set()
        self.in_tree = None
        for key, value in parse.parse_qsl(query):
            if key.startswith('resources'):
                for part in value.split(','):
                    name, _, amount = part.rpartition(':')
                    self.resources[name] += int(amount)
            elif key in ('required', 'root_required'):
                for trait in value.split(','):
                    if trait.startswith('!'):
                        self.forbidden.add(trait[1:])
                    elif not trait.startswith('in:'):
                        self.required.add(trait)
            elif key == 'member_of' and value.startswith('!'):
                self.not_member_of |= _aggregates(value[1:])
            elif key == 'member_of':
                self.member_of.append(_aggregates(value))
            elif key == 'in_tree':
                self.in_tree = value

    def __str__(self):
        return ', '.join('%s %d' % pair
                         for pair in sorted(self.resources.items()))

    def obstacles(self, provider, aggregate_names):
        """Yield why a provider is no candidate, one sentence per obstacle.

        :param aggregate_names: dict, aggregate -> name for the reader
        """
        if self.in_tree not in (None, provider.uuid):
            yield 'another host was asked for'
            return

        def named(aggregates):
            return ' or '.join(sorted(
                aggregate_names.get(uuid, uuid) for uuid in aggregates))

        for trait in sorted(self.required - provider.traits):
            yield 'lacks the trait %s' % trait
        for trait in sorted(self.forbidden & provider.traits):
            yield 'has the trait %s, which is ruled out' % trait
        for aggregates in self.member_of:
            if not aggregates & provider.aggregates:
                yield 'is in no aggregate with %s' % named(aggregates)
        unwanted = self.not_member_of & provider.aggregates
        if unwanted:
            yield 'is in the aggregate %s, which is ruled out' % (
                named(unwanted))
        for name, need in sorted(self.resources.items()):
            needed = '%d %s needed, ' % (need, name)
            if name not in provider.inventories:
                yield needed + 'it has none'
                continue
            free = provider.free(name)
            largest = provider.inventories[name]['max_unit']
            if need > free:
                yield needed + '%d free of %d' % (
                    max(free, 0), free + provider.usages.get(name, 0))
            elif need > largest:
                yield needed + '%d at most for one instance' % largest


def _aggregates(value):
    return set(value.removeprefix('in:').split(','))


def explain(query, providers, aggregate_names, refused, own_host=None):
    """Return why no host takes a request, one sentence per provider.

    :param query: str, the query that Placement was asked
    :param providers: list of Provider
    :param aggregate_names: dict, aggregate -> name for the reader
    :param refused: dict, name of a provider -> why a filter refused it
    :param own_host: name of the provider that the server is on, if any: a
        move does not consider it
    :returns: list of str
    """
    request = Request(query)

    def reason(provider):
        if provider.name in refused:
            return refused[provider.name]
        found = '; '.join(request.obstacles(provider, aggregate_names))
        return found or (
            'the host the server is on; a move needs another one'
            if provider.name == own_host else
            'nothing found that speaks against it')

    return ['%s: %s' % (provider.name, reason(provider))
            for provider in sorted(providers, key=lambda item: item.name)]
