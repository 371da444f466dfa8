# SPDX-License-Identifier: Apache-2.0

"""Why a service does not start, and why no host takes a request.

Nova keeps neither the refusals of the filters nor the request to Placement:
:class:`SchedulerWatch` records both. If Placement leaves a host out of its
answer, :mod:`nova_prio.placement.obstacles` finds the reason. A provider is
the resource provider of a host in Placement, and has the name of the host.
"""

import contextlib
import logging
import operator

import fixtures
from nova.scheduler.client import report
from nova.scheduler import filters

from nova_prio.admin.explain import candidates
from nova_prio.placement import allocations
from nova_prio.placement import obstacles
from nova_prio_scenario import result

PRIORITY_FILTER_LOGGER = 'nova_prio.scheduler.filters.priority_filter'


@contextlib.contextmanager
def convert_refused_start(make_error):
    """Raise another error if a service in this context refuses to start.

    :param make_error: function, critical log message of the service to error
    """
    try:
        yield
    except SystemExit as exc:
        # nova_prio.compat.contract logs this text and then exits.
        raise make_error('nova_prio: %s' % exc.__context__) from exc


class SchedulerWatch(fixtures.Fixture):
    """Records why hosts were refused since the last :meth:`clear`.

    ``request`` is the last ``nova.scheduler.utils.ResourceRequest`` to
    Placement, or None. ``has_candidates`` tells whether Placement returned any
    host for the request. ``refusals`` is a dict, host that a filter refused to
    sentence.
    """

    def _setUp(self):
        """Record the answers of the filters and of Placement from now on."""
        self.clear()
        # PriorityFilter overrides filter_all and does not call _filter_one.
        handler = logging.Handler()
        handler.emit = self._record_priority_filter
        self.useFixture(fixtures.LogHandler(
            handler, PRIORITY_FILTER_LOGGER, logging.DEBUG,
            nuke_handlers=False))
        self._wrap(filters.BaseHostFilter, '_filter_one', self._record_filter)
        self._wrap(report.SchedulerReportClient, 'get_allocation_candidates',
                   self._record_candidates)

    def clear(self):
        """Forget the last request and its refusals."""
        self.request = None
        self.has_candidates = False
        self.refusals = {}

    def _wrap(self, owner, name, record):
        """Pass the arguments and the result of a method to a function.

        :param owner: class of the method
        :param name: name of the method
        :param record: function, called with the arguments and the result
        """
        method = getattr(owner, name)

        def call_and_record(*args):
            answer = method(*args)
            record(*args, answer)
            return answer

        self.useFixture(
            fixtures.MockPatchObject(owner, name, call_and_record))

    def _record_priority_filter(self, record):
        """Record a refusal from the log record of PriorityFilter."""
        if isinstance(record.args, dict) and 'refusal' in record.args:
            refusal = record.args['refusal']
            self.refusals[record.args['host']] = '%s (%s)' % (
                refusal.detail, refusal.reason)

    def _record_filter(self, host_filter, host_state, spec, passes):
        """Record that a filter of Nova refuses a host."""
        if not passes:
            self.refusals[host_state.host] = (
                'refused by %s' % type(host_filter).__name__)

    def _record_candidates(self, client, context, request, answer):
        """Record a ResourceRequest, and whether Placement has candidates.

        :param answer: tuple of Nova, beginning with the list of candidates;
            None if Placement failed
        """
        self.request = request
        self.has_candidates = bool(answer and answer[0])


def find_reasons(watch, cloud, own_host=None):
    """Yield why no host takes the last request, one sentence for each host.

    If Placement has no candidate, a line with the resources is the first one.

    :param watch: SchedulerWatch
    :param cloud: :class:`nova_prio_scenario.cloud.Cloud`, running
    :param own_host: name of the host that the server must leave in a move;
        None if the request is for a new server
    """
    request = watch.request
    if request is None:
        return
    if not watch.has_candidates:
        resources = sorted(request.merged_resources().items())
        amounts = ['%s %d' % resource for resource in resources]
        yield '%s%s:' % (result.NO_CANDIDATE, ', '.join(amounts))
        # Nova only logs why Placement refuses a request: ask again.
        try:
            candidates.read(report.report_client_singleton(), request)
        except allocations.RequestInvalid as error:
            yield str(error)
            return
    aggregates = cloud.api.api_get('/os-aggregates').body['aggregates']
    aggregate_names = {
        aggregate['uuid']: aggregate['name'] for aggregate in aggregates}
    sentences = dict(watch.refusals)
    for host in cloud.hosts_down & sentences.keys():
        sentences[host] = 'the host is down'
    yield from explain(
        request, list_providers(cloud.placement), aggregate_names, sentences,
        own_host=own_host)


def list_providers(placement):
    """Return the resource providers, a list of dicts.

    The keys are those of Placement: name, uuid, inventories, usages, traits,
    aggregates.

    :param placement: client of Placement
    """
    providers = placement.get('/resource_providers').body['resource_providers']
    for provider in providers:
        for key in ('inventories', 'usages', 'traits', 'aggregates'):
            path = '/resource_providers/%s/%s' % (provider['uuid'], key)
            provider[key] = placement.get(path, version='1.19').body[key]
    return providers


def explain(request, providers, aggregate_names, refusals, own_host=None):
    """Yield why no host takes a request, one sentence for each provider.

    :param request: ``nova.scheduler.utils.ResourceRequest``
    :param providers: list of dicts, see :func:`list_providers`
    :param aggregate_names: dict, UUID of an aggregate to its name
    :param refusals: dict, name of a provider to why a filter refused it
    :param own_host: name of the host that the server must leave in a move;
        None if the request is for a new server
    """
    for provider in sorted(providers, key=operator.itemgetter('name')):
        reason = refusals.get(provider['name'])
        if not reason:
            found = obstacles.find_obstacles(
                request, provider, aggregate_names)
            reason = '; '.join(obstacle.text for obstacle in found)
        if not reason and provider['name'] == own_host:
            reason = 'the server is on this host; a move needs another host'
        yield '%s: %s' % (provider['name'], reason or 'no reason found')
