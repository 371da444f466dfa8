# SPDX-License-Identifier: Apache-2.0

"""Correct the allocations of the instances of a host in Placement."""

import typing

from nova import exception
from oslo_log import log as logging

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

LOG = logging.getLogger(__name__)


class _Uncorrected(typing.NamedTuple):
    """An allocation that differs at the host, and was not corrected.

    ``error`` says why. It is None if the allocation is right, because a
    sharing provider has the rest of it.
    """

    present: dict
    expected: dict
    error: str | None


class AllocationHealing:
    """Correct allocations that drifted, in each run of the periodic task.

    This heals idle instances of the host. ``nova-prio audit --fix`` repairs
    all other allocations.
    """

    def __init__(self):
        # UUID of an instance -> _Uncorrected of the last run.
        self._seen = {}

    def run(self, context, client, compute_node, classes, instances):
        """Correct each allocation that drifted, or warn that this failed.

        :param context: nova.context.RequestContext
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :param compute_node: nova.objects.ComputeNode
        :param classes: resource classes of the host
        :param instances: iterable of nova.objects.Instance on this host that
            the driver manages
        """
        last, self._seen = self._seen, {}
        try:
            answer = client.get_allocations_for_resource_provider(
                context, compute_node.uuid)
            present = {uuid: allocations.select_managed(found['resources'])
                       for uuid, found in answer.allocations.items()}
            for instance, expected in allocations.find_drifted(
                    context, [instance for instance in instances
                              if instance.task_state is None],
                    present, classes):
                uuid = instance.uuid
                known_drift = _Uncorrected(
                    present.get(uuid, {}), expected, error=None)
                # The last run found the same drift, and that a sharing
                # provider has the missing amount.
                if last.get(uuid) == known_drift:
                    self._seen[uuid] = known_drift
                else:
                    self._heal(context, client, compute_node, uuid,
                               known_drift, last.get(uuid))
        except (exception.ResourceProviderAllocationRetrievalFailed,
                exception.ConsumerAllocationRetrievalFailed,
                *allocations.CLIENT_ERRORS) as error:
            LOG.warning('The allocations of the instances of this host are '
                        'not checked: %s', error)

    def _heal(self, context, client, compute_node, uuid, known_drift, last):
        """Correct the allocation of an instance, and record the result.

        :param known_drift: _Uncorrected to record if a sharing provider has
            the missing amount
        :param last: _Uncorrected of the last run, or None
        """
        try:
            healed = allocation_repair.repair(
                context, client, compute_node.uuid, compute_node.host, uuid)
        except allocations.PlacementRefused as error:
            self._seen[uuid] = known_drift._replace(error=str(error))
            if self._seen[uuid] != last:
                LOG.warning('Cannot correct the allocation on this host '
                            '(is %s, must be %s): %s. Run "nova-prio audit".',
                            *self._seen[uuid], instance_uuid=uuid)
            return
        if healed is None:
            return
        before, after = healed
        if before == after:
            self._seen[uuid] = known_drift
        else:
            LOG.warning('Corrected the allocation on this host (was %s, now '
                        '%s).', before, after, instance_uuid=uuid)
