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

"""Listens to the scheduler while a step is played.

What the filters say of each host, and what Placement was asked, is only known
while the request is decided.
"""

import logging

import fixtures
from nova.scheduler.client import report
from nova.scheduler import filters

PRIORITY_FILTER_LOGGER = 'nova_prio.scheduler.filters.priority_filter'


class SchedulerWatch(fixtures.Fixture):
    """Keeps why hosts were refused since the last :meth:`clear`.

    ``query`` is what Placement was asked last, or None; ``has_candidates``
    whether it had any.
    """

    def _setUp(self):
        self.clear()
        self._watch_priority_filter()
        self._watch_filters()
        self._watch_placement()

    def clear(self):
        """Forget all."""
        self.query = None
        self.has_candidates = False
        self._removed_by = {}
        self._details = {}

    def _watch_priority_filter(self):
        handler = _RecordHandler(self._hear)
        logger = logging.getLogger(PRIORITY_FILTER_LOGGER)
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.DEBUG)

    def _hear(self, record):
        if isinstance(record.args, dict) and 'refusal' in record.args:
            host = record.args['host']
            self._removed_by[host] = 'PriorityFilter'
            self._details[host] = record.args['refusal']

    def _watch_filters(self):
        stock = filters.BaseHostFilter._filter_one

        def filter_one(host_filter, host_state, spec):
            passes = stock(host_filter, host_state, spec)
            if passes:
                self._removed_by.pop(host_state.host, None)
            else:
                self._removed_by[host_state.host] = type(host_filter).__name__
            return passes

        self.useFixture(fixtures.MockPatchObject(
            filters.BaseHostFilter, '_filter_one', filter_one))

    def _watch_placement(self):
        stock = report.SchedulerReportClient.get_allocation_candidates

        def get_allocation_candidates(client, context, resources):
            answer = stock(client, context, resources)
            self.query = resources.to_querystring()
            self.has_candidates = bool(answer and answer[0])
            return answer

        self.useFixture(fixtures.MockPatchObject(
            report.SchedulerReportClient, 'get_allocation_candidates',
            get_allocation_candidates))

    def refusals(self):
        """Return a dict, host -> sentence, of those that a filter refused."""
        sentences = {}
        for host, name in self._removed_by.items():
            said = self._details.get(host)
            if name == 'PriorityFilter' and said:
                sentences[host] = '%s (%s)' % (said.detail, said.reason)
            else:
                sentences[host] = 'removed by %s' % name
        return sentences


class _RecordHandler(logging.Handler):
    """Hands each record to a function."""

    def __init__(self, receive):
        super().__init__(logging.DEBUG)
        self.emit = receive
