# SPDX-License-Identifier: Apache-2.0

"""Warnings about oversold rows of a host.

A row is a number of vCPUs that a host may sell, and how many of them are used
(:mod:`nova_prio.model.cpu_capacity`).
"""

from oslo_log import log as logging

from nova_prio.model import cpu_capacity
from nova_prio.model import usage

LOG = logging.getLogger(__name__)


class OversoldWarnings:
    """Warn of each instance on an oversold row, once while that lasts.

    A row is oversold if the configuration changed while instances were on the
    host: mix was disabled, a CPU set shrank, or the ratio fell.
    """

    def __init__(self):
        # (UUID of an instance, name of a row) of the last call of warn().
        self._warned = frozenset()

    def warn(self, report, usages):
        """Write a WARNING for each instance on an oversold row, once.

        A row is a limit of the host for one kind of vCPUs: "high" for pinned,
        "low" for shared ones, and "ordinary" for those without low priority.

        :param report: ``capacity_report.CapacityReport`` of the host: its
            ``sellable`` and ``used`` have a number of vCPUs for each row
        :param usages: list of (UUID of an instance, Usage); an instance that
            is resized on the host has two
        """
        # (UUID, name of a row) -> vCPUs of the instance that the row counts.
        found = usage.find_users(usages, cpu_capacity.find_oversold_rows(
            report.sellable, report.used))
        for (uuid, row), vcpus in found.items():
            if (uuid, row) not in self._warned:
                LOG.warning(
                    'Too much is sold of the %s row of this host: %d of %d '
                    'CPUs, %d of them to this instance. The instance keeps '
                    'running, and the row admits nothing while too much is '
                    'sold: move instances away, or set '
                    'cpu_priority_mix_enable, the CPU sets and the CPU '
                    'allocation ratio as they were.',
                    row, getattr(report.used, row),
                    getattr(report.sellable, row), vcpus, instance_uuid=uuid)
        self._warned = frozenset(found)
