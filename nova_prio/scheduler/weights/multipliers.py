# SPDX-License-Identifier: Apache-2.0

"""The multiplier of a weigher, which aggregate metadata may override."""

import functools

import nova.conf
from nova.scheduler import utils

from nova_prio.scheduler import failures

CONF = nova.conf.CONF


class AggregateMultiplier:
    """Part of a weigher: its multiplier for each host.

    A host weighs zero after an exception, which is logged at ERROR.
    """

    #: Name of the option in [nova_prio], and key of the aggregate metadata:
    #: one of ``aggregate_metadata.MULTIPLIER_KEYS``.
    multiplier_name = None

    def __init__(self):
        """Read the option, once for each nova-scheduler."""
        self._multiplier = CONF.nova_prio[self.multiplier_name]
        self._has_multiplier = functools.cache(self._find_multiplier)

    def _forget_aggregates(self):
        """Forget which aggregates override the multiplier.

        Call this for each request. Within one request, each aggregate is read
        once, because hosts share them.
        """
        self._has_multiplier = functools.cache(self._find_multiplier)

    def weight_multiplier(self, host_state):
        """Return the multiplier of the host's aggregates or of the option."""
        try:
            for aggregate in host_state.aggregates:
                # Nova's function reads all aggregates of each host. Call it
                # only if needed: this test is cached for each aggregate.
                if self._has_multiplier(aggregate):
                    return utils.get_weight_multiplier(
                        host_state, self.multiplier_name, self._multiplier)
        except Exception:
            return self._log_and_get_zero(host_state)
        return self._multiplier

    def _find_multiplier(self, aggregate):
        """Return whether an aggregate overrides the multiplier."""
        return self.multiplier_name in aggregate.metadata

    def _log_and_get_zero(self, host_state):
        """Log the current exception, and return zero.

        Zero is the weight of the host, or a multiplier that makes it zero.
        """
        failures.log_failure(type(self).__name__, 'the host weighs zero',
                             host_state)
        return 0.0
