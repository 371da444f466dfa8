# SPDX-License-Identifier: Apache-2.0

"""Why a service does not start, and why no host takes a request.

Nova keeps neither the refusals of the filters nor the request to Placement:
:class:`SchedulerWatch` records both. For the hosts that Placement left out,
this module repeats the checks of ``GET /allocation_candidates`` and
``placement.objects.inventory`` (Placement 16).
"""

import contextlib
import dataclasses
import logging

import fixtures
from nova.scheduler.client import report
from nova.scheduler import filters

PRIORITY_FILTER_LOGGER = 'nova_prio.scheduler.filters.priority_filter'


def _listen(logger, lowest_level, receive, **kwargs):
    """Return a fixture that passes the records of a logger to a function."""
    handler = logging.Handler(lowest_level)
    handler.emit = receive
    return fixtures.LogHandler(handler, logger, nuke_handlers=False, **kwargs)


@contextlib.contextmanager
def to_start(error):
    """Raise an error if a service refuses to start.

    :param error: function, last critical message of this package to error
    """
    messages = [None]
    with _listen('nova_prio', logging.CRITICAL,
                 lambda record: messages.append(record.getMessage())):
        try:
            yield
        except SystemExit as exc:
            raise error(messages[-1]) from exc


class SchedulerWatch(fixtures.Fixture):
    """Records why hosts were refused since the last :meth:`clear`.

    ``request`` is the last ``nova.scheduler.utils.ResourceRequest``, or None.
    ``has_candidates`` tells whether Placement returned any. ``refusals`` is a
    dict, host to sentence, of the hosts that a filter refused.
    """

    def _setUp(self):
        self.clear()
        self.useFixture(_listen(PRIORITY_FILTER_LOGGER, logging.DEBUG,
                                self._record, level=logging.DEBUG))
        for owner, name, watched in (
                (filters.BaseHostFilter, '_filter_one', self._filter_one),
                (report.SchedulerReportClient, 'get_allocation_candidates',
                 self._get_candidates)):
            self.useFixture(fixtures.MockPatchObject(
                owner, name, watched(getattr(owner, name))))

    def clear(self):
        """Forget all."""
        self.request = None
        self.has_candidates = False
        self.refusals = {}

    def _record(self, record):
        # PriorityFilter has its own filter_all and calls no _filter_one.
        if isinstance(record.args, dict) and 'refusal' in record.args:
            refusal = record.args['refusal']
            self.refusals[record.args['host']] = '%s (%s)' % (
                refusal.detail, refusal.reason)

    def _filter_one(self, stock):
        def filter_one(host_filter, host_state, spec):
            passes = stock(host_filter, host_state, spec)
            if passes:
                self.refusals.pop(host_state.host, None)
            else:
                self.refusals[host_state.host] = (
                    'refused by %s' % type(host_filter).__name__)
            return passes

        return filter_one

    def _get_candidates(self, stock):
        def get_allocation_candidates(client, context, resources):
            answer = stock(client, context, resources)
            self.request = resources
            self.has_candidates = bool(answer and answer[0])
            return answer

        return get_allocation_candidates


@dataclasses.dataclass(frozen=True)
class Provider:
    """A resource provider in Placement.

    ``inventories`` is a dict, resource class to dict of total, reserved,
    allocation_ratio and max_unit. ``usages`` is a dict, resource class to
    int. ``traits`` and ``aggregates`` are sets of str.
    """

    name: str
    uuid: str
    inventories: dict
    usages: dict
    traits: frozenset = frozenset()
    aggregates: frozenset = frozenset()

    def get_free(self, resource_class):
        """Return the free amount of a resource class, negative if oversold."""
        inventory = self.inventories[resource_class]
        return int((inventory['total'] - inventory['reserved'])
                   * inventory['allocation_ratio']
                   ) - self.usages.get(resource_class, 0)


def describe(request):
    """Return the resources of a ResourceRequest, such as "PCPU 4"."""
    return ', '.join('%s %d' % pair for pair in sorted(
        request.merged_resources().items()))


def find_obstacles(request, provider, aggregate_names):
    """Yield a sentence for each reason why a provider is no candidate.

    :param aggregate_names: dict, UUID of an aggregate to its name
    """
    group = request.get_request_group(None)
    if group.in_tree not in (None, provider.uuid):
        yield 'the request names another host'
        return

    def name_all(aggregates):
        return ' or '.join(sorted(
            aggregate_names.get(uuid, uuid) for uuid in aggregates))

    required = group.required_traits | request._root_required
    for trait in sorted(required - provider.traits):
        yield 'lacks the trait %s' % trait
    forbidden = group.forbidden_traits | request._root_forbidden
    for trait in sorted(forbidden & provider.traits):
        yield 'has the forbidden trait %s' % trait
    for aggregates in group.aggregates:
        if provider.aggregates.isdisjoint(aggregates):
            yield 'is in no aggregate with %s' % name_all(aggregates)
    unwanted = group.forbidden_aggregates & provider.aggregates
    if unwanted:
        yield 'is in the forbidden aggregate %s' % name_all(unwanted)
    for name, amount in sorted(request.merged_resources().items()):
        needed = '%d %s needed, ' % (amount, name)
        if name not in provider.inventories:
            yield needed + 'the host has none'
            continue
        free = provider.get_free(name)
        largest = provider.inventories[name]['max_unit']
        if amount > free:
            yield needed + '%d free of %d' % (
                max(free, 0), free + provider.usages.get(name, 0))
        elif amount > largest:
            yield needed + '%d at most for one instance' % largest


def explain(request, providers, aggregate_names, refusals, own_host=None):
    """Yield why no host takes a request, one sentence per provider.

    :param request: ``nova.scheduler.utils.ResourceRequest``
    :param refusals: dict, name of a provider to why a filter refused it
    :param own_host: name of the provider of the server, if there is one: a
        move must leave it
    """
    for provider in sorted(providers, key=lambda provider: provider.name):
        reason = refusals.get(provider.name) or '; '.join(
            find_obstacles(request, provider, aggregate_names))
        if not reason and provider.name == own_host:
            reason = 'the server is on this host; a move needs another host'
        yield '%s: %s' % (provider.name, reason or 'no reason found')
