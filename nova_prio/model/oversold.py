# SPDX-License-Identifier: Apache-2.0

"""What a host has sold too much of, in sentences for its operator.

A row is a number of vCPUs that a host may sell, and how many of them are used
(:mod:`nova_prio.model.cpu_capacity`). Small pages are the memory of a host
that is not in pools of huge pages (:mod:`nova_prio.model.memory_pages`).
"""

from __future__ import annotations

from collections import abc

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.model import usage


def describe(report: capacity_report.CapacityReport,
             usages: abc.Iterable[tuple[str, usage.Usage]],
             ) -> dict[tuple[str | None, str], str]:
    """Return a sentence for each instance on an oversold row, and for pages.

    A row is a limit of the host for one kind of vCPUs: "high" for pinned,
    "low" for shared ones, and "ordinary" for those without low priority.

    :param usages: (UUID of an instance, its Usage); an instance that is
        resized on the host has two
    :returns: dict, (UUID, name of the row) -> sentence. The UUID is None for
        the sentence about the small pages of the host.
    """
    rows = cpu_capacity.find_oversold_rows(report.sellable, report.used)
    sentences: dict[tuple[str | None, str], str] = {}
    for (uuid, row), vcpus in usage.find_users(usages, rows).items():
        sentences[uuid, row] = (
            'Too much is sold of the %s row of this host: %d of %d CPUs, %d '
            'of them to this instance. The instance keeps running, and the '
            'row admits nothing while too much is sold: move instances away, '
            'or set cpu_priority_mix_enable, the CPU sets and the CPU '
            'allocation ratio as they were.' % (
                row, getattr(report.used, row), getattr(report.sellable, row),
                vcpus))
    small = report.small_pages
    if small is not None and small.free_mb < 0:
        sentences[None, memory_pages.RESOURCE] = (
            'Too much is sold of the small pages of this host, which are its '
            'memory outside of huge pages: %d MB more than it has. The '
            'instances keep running, and the host admits none without huge '
            'pages while too much is sold: move such instances away, or set '
            'the pools of huge pages and reserved_host_memory_mb as they '
            'were.' % -small.free_mb)
    return sentences
