# SPDX-License-Identifier: Apache-2.0

"""Claims on a host, which also test its rows and lease its CPUs.

A row is a number of vCPUs that a host may sell, and how many of them are used
(:mod:`nova_prio.model.cpu_capacity`). A lease is the CPUs and vCPUs that an
instance has on the host (:mod:`nova_prio.model.leases`).

The host states of the scheduler are stale when many instances are created at
once. A claim is made under the lock of the tracker, and decides. It trusts
the numbers of nova-compute: the limits from the scheduler are older.
"""

from nova.compute import claims
import nova.conf
from nova import exception
from nova.objects import fields

from nova_prio.compute import start_gate
from nova_prio.model import admission
from nova_prio.model import flavor_specs
from nova_prio.model import leases
from nova_prio.virt import demand
from nova_prio.virt import numa

CONF = nova.conf.CONF


class _PriorityTest:
    """Test the claim for the class of its instance: high, low or ordinary.

    Test the rows of the host and its memory, and hide the CPUs and pages that
    Nova must not use for the NUMA fit. Then lease the CPUs.
    """

    def _test_numa_topology(self, compute_node, limit, /):
        """Return all reasons to refuse the claim in one text, or None.

        Our test comes first, then Nova's of the NUMA topology. If ours raises
        an error, the claim is refused if Nova's alone is not sufficient: for
        an instance with a priority, and for a pinned one on a mix host, which
        has ``cpu_priority_mix_enable``. There, Nova does not know the CPUs on
        which no instance may be pinned.

        If there is no reason, lease the CPUs to the instance: while they are
        leased, this host gives them to no other one.

        :param compute_node: nova.objects.ComputeNode of the tracker
        :param limit: nova.objects.NUMATopologyLimits of the request, or None
        """
        host = self.tracker.priority_host
        refusals = []
        # An error is logged, and is the problem of the outcome. It leaves the
        # node and the limit unchanged.
        with host.steps.contain(
                'test a claim', refuse_on_error=False,
                reraised=(exception.ComputeResourcesUnavailable,)) as outcome:
            # Nova then tests a node and limits in which it finds only what an
            # instance of this priority may use.
            refusals, compute_node, limit = self._test_capacity(
                compute_node, limit)
        if outcome.problem and self._needs_our_test():
            refusals = [outcome.problem]
        unfit = super()._test_numa_topology(compute_node, limit)
        if unfit:
            refusals.append(str(unfit))
        if not refusals:
            # An error is logged, and does not refuse this claim. The host then
            # refuses priority instances until the periodic task has counted
            # its resources again.
            with host.steps.contain('lease the CPUs of a claim',
                                    refuse_until_recount=True):
                uuid = self.instance.uuid
                # A guest may have started on these CPUs since the test. Then
                # its instance is an owner, and nothing is leased here: owners
                # is a dict, UUID -> the CPUs that it has. The lease of a move
                # has the UUID of the migration: it may end when this is over.
                owners = host.leases.begin(uuid, demand.get_lease_set(
                    self._get_flavor(), self.claimed_numa_topology,
                    self.migration and self.migration.uuid))
                if owners:
                    refusals = [start_gate.format_refusal(uuid, owners)]
        return '; '.join(refusals) or None

    def __enter__(self):
        """Keep the lease until Nova's call that made the claim has ended.

        The lease is the CPUs and vCPUs that this host keeps for the instance.
        """
        self.tracker.priority_host.leases.begin_call(self.instance.uuid)
        return super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb):
        """Let the lease end from now on: Nova's call has ended, or has failed.

        The lease is the CPUs and vCPUs that this host keeps for the instance.
        After an error, Nova's ``__exit__`` aborts the claim. A call that
        evacuates an instance goes on after this, and keeps the lease until
        ``finish_evacuation`` of the tracker.
        """
        goes_on = (self.migration and self.migration.migration_type ==
                   fields.MigrationType.EVACUATION)
        if exc_type or not goes_on:
            self.tracker.priority_host.leases.end_call(self.instance.uuid)
        super().__exit__(exc_type, exc_val, exc_tb)

    def _get_flavor(self):
        """Return the flavor that the instance has after the claim."""
        # Of Nova's claims, only a MoveClaim has a flavor.
        return getattr(self, 'flavor', self.instance.flavor)

    def _needs_our_test(self):
        """Return whether Nova's NUMA test alone is not sufficient for a claim.

        The test fits the NUMA topology to the host. It is not sufficient for
        an instance with a priority. Nor is it for a pinned one on a host with
        ``cpu_priority_mix_enable``: there, Nova does not know all CPUs on
        which no instance may be pinned.
        """
        topology = self.numa_topology
        return (flavor_specs.EXTRA_SPEC in self._get_flavor().extra_specs or
                bool(CONF.cpu_priority_mix_enable and topology and
                     any(cell.pcpuset for cell in topology.cells)))

    def _test_capacity(self, node, limits):
        """Test the claim before Nova tests its NUMA fit.

        Test the rows, which are the numbers of vCPUs that the host may sell,
        and the memory. Then hide the CPUs and pages from Nova that it must not
        use. Nova's own numbers lack the uncounted leases: what instances have
        here that no record of Nova names at the moment.

        :param node: nova.objects.ComputeNode of the tracker
        :param limits: nova.objects.NUMATopologyLimits, or None
        :returns: (list of refusals, each a str; the compute node and the limit
            for Nova's test of the NUMA topology)
        """
        host = self.tracker.priority_host
        uuid = self.instance.uuid
        request = demand.ResourceRequest.from_flavor(
            self._get_flavor(), self.numa_topology)
        # If the present instances use more VCPU than the host sells, the
        # driver reports a total that covers them, and Placement may admit
        # another instance. Refuse each instance with shared vCPUs, with and
        # without a priority. The low row limits all shared vCPUs.
        if host.is_vcpu_oversold and request.needed_rows.low:
            return [admission.Refusal('oversold').detail], node, limits
        # An instance of this host has wrong CPUs, as this sentence says: take
        # no pinned instance, because the CPUs may be in use. Those with a
        # priority are refused below: the report has this sentence as well.
        if host.pin_problem and (
                request.needed_rows.high and not request.priority):
            return [host.pin_problem], node, limits
        uncounted = host.leases.list_uncounted(but=uuid)
        # If the option is false, Nova alone decides about an instance without
        # a priority, but must know the CPUs that are leased to an instance, or
        # blocked by a guest of an older configuration or of no instance: no
        # instance may be pinned on these. Nova knows the pinned ones itself.
        is_stock = (request.priority is None and
                    not CONF.cpu_priority_mix_enable)
        if is_stock:
            hidden = host.guests.blocked | host.leases.find_cpus(but=uuid)
            hidden -= demand.get_host_pins(node.numa_topology)
            if not hidden and not uncounted:
                return [], node, limits
        topology = numa.add_usage(
            node.numa_topology, [each.topology for each in uncounted])
        if is_stock:
            return [], numa.make_node(numa.block(topology, hidden)), limits
        report = host.report(node, self.tracker.read_inventories(node), uuid)
        free_mb = node.free_ram_mb - leases.calculate_totals(uncounted).ram_mb
        refusals = [refusal.detail for refusal in admission.find_refusals(
            report, request, report.remaining, free_mb, report.small_pages)]
        if request.priority and self.tracker.is_disabled_for_priority(
                self.nodename):
            refusals.insert(0, admission.Refusal('disabled').detail)
        if topology:
            # Hide the CPUs that an instance of this class must not use.
            topology = numa.limit_small_pages(
                numa.limit_to_class(topology, report, request.demand),
                request.memory_parts, report.small_pages)
        return refusals, numa.make_node(topology), numa.make_limits(
            limits, report, node.ram_allocation_ratio)


class PriorityClaim(_PriorityTest, claims.Claim):
    """A claim for an instance that is new on the host."""


class PriorityMoveClaim(_PriorityTest, claims.MoveClaim):
    """A claim for an instance that moves to the host."""

    def __init__(self, context, instance, nodename, flavor, image_meta,
                 tracker, compute_node, pci_requests, migration, limits=None):
        """Claim as Nova does, but keep the devices of a live migration.

        :param limits: nova.objects.NUMATopologyLimits, or None
        """
        if tracker.keeps_pci_requests(instance, migration):
            # Nova makes new requests from the flavor. It would claim for
            # these, and saves this object with the claim: put the requests of
            # the instance into the object.
            pci_requests.requests = instance.pci_requests.requests
        super().__init__(context, instance, nodename, flavor, image_meta,
                         tracker, compute_node, pci_requests, migration,
                         limits=limits)
