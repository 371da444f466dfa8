# SPDX-License-Identifier: Apache-2.0

"""Correct the allocations of the instances of a host in Placement.

An allocation has drifted if its amounts are not those that the flavor of the
instance requests.
"""

import typing

from nova import exception
from oslo_log import log as logging

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

LOG = logging.getLogger(__name__)


class _Uncorrected(typing.NamedTuple):
    """An allocation that differs at the host, and was not corrected.

    ``present`` and ``expected`` are dicts, resource class -> amount. ``error``
    says why. It is None if the allocation is right, because a sharing provider
    (of a shared disk, for example) has the rest of it.
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
        """Know no drift yet."""
        # UUID of an instance -> _Uncorrected of the last run.
        self._seen = {}

    def run(self, context, client, compute_node, classes, instances):
        """Correct each allocation that drifted, or warn that this failed.

        An allocation has drifted if its amounts are not those that the flavor
        of the instance requests. Leave out instances with a task.

        :param context: nova.context.RequestContext
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :param compute_node: nova.objects.ComputeNode
        :param classes: dict, resource class -> inventory of the host
        :param instances: iterable of nova.objects.Instance on this host that
            the driver manages
        """
        # Of each run, keep what it could not correct: the next run then does
        # not repeat the warning.
        last, self._seen = self._seen, {}
        try:
            # UUID of a consumer -> resource class -> amount.
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
                uncorrected = last.get(uuid)
                # If the last run has found the same drift without an error,
                # the allocation is right: a sharing provider, such as that of
                # a shared disk, has the missing amount. Otherwise correct it.
                # The result replaces that of the last run, which _heal needs
                # to repeat no warning.
                if uncorrected != known_drift:
                    uncorrected = _heal(context, client, compute_node, uuid,
                                        known_drift, uncorrected)
                # It is None if the allocation was corrected, or if Nova is
                # changing the instance.
                if uncorrected:
                    self._seen[uuid] = uncorrected
        except (exception.ResourceProviderAllocationRetrievalFailed,
                exception.ConsumerAllocationRetrievalFailed,
                *allocations.CLIENT_ERRORS) as error:
            LOG.warning('The allocations of the instances of this host are '
                        'not checked: %s', error)


def _heal(context, client, compute_node, uuid, known_drift, last):
    """Correct the allocation of an instance, or warn once that this failed.

    :param known_drift: _Uncorrected with the present and the expected amounts
        at the host. It is returned if a sharing provider, such as that of a
        shared disk, has the missing amount.
    :param last: _Uncorrected of the last run, or None; an equal error is not
        logged again
    :returns: _Uncorrected, with an ``error`` if Placement has refused; None if
        the allocation is right now, or if the instance is in the middle of an
        operation
    """
    try:
        healed = allocation_repair.repair(
            context, client, compute_node.uuid, compute_node.host, uuid)
    except allocations.PlacementRefused as error:
        refused = known_drift._replace(error=str(error))
        if refused != last:
            LOG.warning(
                'Cannot correct the allocation on this host (is %(present)s, '
                'must be %(expected)s): %(error)s. Run "nova-prio audit".',
                refused._asdict(), instance_uuid=uuid)
        return refused
    # None if the instance is not idle; else two dicts of amounts.
    if healed is None:
        return None
    before, after = healed
    if before == after:
        # The allocation was right: a sharing provider has the missing amount.
        return known_drift
    LOG.warning('Corrected the allocation on this host (was %s, now %s).',
                before, after, instance_uuid=uuid)
    return None
