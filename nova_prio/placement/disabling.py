# SPDX-License-Identifier: Apache-2.0

"""Whether a host is disabled for priority instances, as Placement knows."""

from __future__ import annotations

import typing

from keystoneauth1 import exceptions as ks_exceptions

from nova_prio.model import traits
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova.compute import provider_tree
    from nova.scheduler.client import report


def is_disabled(client: report.SchedulerReportClient,
                provider: provider_tree.ProviderData) -> bool:
    """Return whether a host is disabled for priority instances.

    If an operator disables the host, this takes effect when nova-compute next
    refreshes the traits from Placement. If an operator enables the host again,
    this takes effect at once.

    :param provider: the resource provider as nova-compute read it last
    """
    if traits.CPU_PRIORITY_DISABLED not in provider.traits:
        return False
    try:
        present = allocations.read_provider(client, provider.uuid, 'traits')
    except (allocations.PlacementRefused, ks_exceptions.ClientException):
        # Without an answer, the traits that were read last decide.
        return True
    return traits.CPU_PRIORITY_DISABLED in present
