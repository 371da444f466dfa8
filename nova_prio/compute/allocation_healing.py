# SPDX-License-Identifier: Apache-2.0


"""Correct the allocations of the instances of a host in Placement."""

from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from oslo_log import log as logging

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

LOG = logging.getLogger(__name__)


class AllocationHealing:
    """Corrects allocations that drifted, in each run of the periodic task.

    It corrects instances that are at rest on this host. ``nova-prio audit
    --fix`` repairs all else.
    """

    def __init__(self):
        # UUID of an instance -> its present and its expected allocation in the
        # last run, and why that was not corrected: None if it was right, with
        # a part of it elsewhere.
        self._seen = {}

    def run(self, context, client, compute_node, classes, instances):
        """Mend what Placement takes, and say at WARNING what it does not.

        :param context: nova.context.RequestContext
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :param compute_node: nova.objects.ComputeNode
        :param classes: resource classes that the host has
        :param instances: list of nova.objects.Instance, those on this host
            that the driver manages
        """
        seen, self._seen = self._seen, {}
        try:
            answer = client.get_allocations_for_resource_provider(
                context, compute_node.uuid)
            held = {uuid: allocations.select_own(found['resources'])
                    for uuid, found in answer.allocations.items()}
            for instance, needs in allocations.find_drifted(
                    context, [instance for instance in instances
                              if instance.task_state is None], held, classes):
                uuid = instance.uuid
                what = held.get(uuid, {}), needs
                if seen.get(uuid) == (*what, None):
                    self._seen[uuid] = seen[uuid]
                else:
                    self._mend(context, client, compute_node, uuid, what,
                               seen.get(uuid))
        except (exception.ResourceProviderAllocationRetrievalFailed,
                exception.ConsumerAllocationRetrievalFailed,
                ks_exceptions.ClientException) as error:
            LOG.warning('What the instances of this host hold in Placement is '
                        'not looked at: %s', error)
        except Exception:
            # The host reports its resources all the same.
            LOG.exception('What the instances of this host hold in Placement '
                          'is not looked at.')

    def _mend(self, context, client, compute_node, uuid, what, seen):
        try:
            mended = allocation_repair.repair(
                context, client, compute_node.uuid, compute_node.host, uuid)
        except allocations.PlacementRefused as error:
            self._seen[uuid] = (*what, str(error))
            if self._seen[uuid] != seen:
                LOG.warning(
                    'Placement holds %s of this host for the instance, which '
                    'needs %s. %s.', *self._seen[uuid], instance_uuid=uuid)
            return
        if mended is None:
            return
        before, after = mended
        if before == after:
            self._seen[uuid] = (*what, None)
        else:
            LOG.warning('Placement held %s for the instance, which needs %s: '
                        'put right.', before, after, instance_uuid=uuid)
