# SPDX-License-Identifier: Apache-2.0

"""Warnings about what a host has sold too much of.

:mod:`nova_prio.model.oversold` explains rows and small pages.
"""

from oslo_log import log as logging

from nova_prio.model import oversold

LOG = logging.getLogger(__name__)


class OversoldWarnings:
    """Warn of oversold rows and small pages, once while that lasts.

    They are oversold if the configuration changed while instances were on the
    host: mix was disabled, a CPU set shrank, the ratio fell, or a pool of huge
    pages grew.
    """

    def __init__(self):
        # What the last call of warn() has described: (UUID of an instance, or
        # None for the host; name of a row, or of the small pages).
        self._warned = frozenset()

    def warn(self, report, usages):
        """Write a WARNING for each instance on an oversold row, once.

        Write one for the whole host if its small pages, the memory outside of
        huge pages, are oversold. A row is a number of vCPUs that the host may
        sell.

        :param report: ``capacity_report.CapacityReport`` of the host
        :param usages: list of (UUID of an instance, Usage); an instance that
            is resized on the host has two
        """
        sentences = oversold.describe(report, usages)
        for key, sentence in sentences.items():
            if key not in self._warned:
                uuid, _name = key
                LOG.warning(sentence, instance_uuid=uuid)
        self._warned = frozenset(sentences)
