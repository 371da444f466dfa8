# SPDX-License-Identifier: Apache-2.0

"""Claims on a host, which also test the rows of the host.

The host states of the scheduler are stale when many instances are created at
once. A claim is made under the lock of the tracker, and decides. It trusts
the numbers of nova-compute: the limits from the scheduler are older.
"""

from nova.compute import claims
import nova.conf
from nova import exception
from nova import objects

from nova_prio.model import admission
from nova_prio.model import flavor_specs
from nova_prio.virt import demand
from nova_prio.virt import numa

CONF = nova.conf.CONF


def _has_ledger(tracker):
    # Nova's own tracker has no such attribute.
    return getattr(tracker, 'has_ledger', False)


class _ClassTest:
    """Test the claim for the class of its instance: high, low or ordinary.

    Test the rows of the host and its memory, and limit the CPUs that Nova may
    use for the NUMA fit. Nova alone tests the claim with another driver, and
    for an ordinary instance on a host without mix whose VCPU is not oversold.
    """

    def _test_numa_topology(self, compute_node, limit, /):
        """Return all reasons to refuse the claim in one text, or None.

        If our test raises an error, this claim of a priority instance is
        refused. For an ordinary instance, only Nova's test counts then. There
        is one exception: an ordinary instance with pinned CPUs is refused on a
        mix host, because Nova does not know the blocked CPUs.
        """
        refusals = []
        # Without our driver, the tracker has no UsageLedger.
        if _has_ledger(self.tracker):
            # An error is only recorded here; the lines below decide.
            with self.tracker.driver.steps.contain(
                    'test a claim', refuse_on_error=False,
                    reraised=(exception.ComputeResourcesUnavailable,)
                    ) as outcome:
                # The limits that Nova then tests are those of the row.
                refusals, compute_node, limit = self._test_capacity(
                    compute_node, limit)
            if outcome.problem and self._needs_our_test():
                refusals = [outcome.problem]
        unfit = super()._test_numa_topology(compute_node, limit)
        if unfit:
            refusals.append(str(unfit))
        return '; '.join(refusals) or None

    def _needs_our_test(self):
        """Return whether Nova's test alone is not sufficient."""
        # Of Nova's claims, only a MoveClaim has a flavor.
        flavor = getattr(self, 'flavor', self.instance.flavor)
        topology = self.numa_topology
        return flavor_specs.EXTRA_SPEC in flavor.extra_specs or bool(
            CONF.cpu_priority_mix_enable and topology and
            any(cell.pcpuset for cell in topology.cells))

    def _test_capacity(self, compute_node, limit):
        """Test the rows that the instance needs, and the memory.

        :returns: (list of refusals, each a str; the compute node and the limit
            for Nova's test of the NUMA topology)
        """
        request = demand.ResourceRequest.from_flavor(
            getattr(self, 'flavor', self.instance.flavor), self.numa_topology)
        # If the present instances use more VCPU than the host sells, the
        # driver reports a total that covers them, and Placement may admit
        # another instance. Refuse each instance with shared vCPUs, also
        # ordinary ones: all of them need the low row.
        if self.tracker.driver.is_vcpu_oversold and request.needed_rows.low:
            return [admission.Refusal('oversold').detail], compute_node, limit
        if request.priority is None and not self.tracker.driver.mix:
            return [], compute_node, limit
        report = self.tracker.get_priority_report(compute_node)
        refusals = [refusal.detail for refusal in admission.find_refusals(
            report, request, report.remaining, compute_node.free_ram_mb)]
        if request.priority and (
                self.tracker.is_disabled_for_priority(self.nodename)):
            refusals.insert(0, admission.Refusal('disabled').detail)
        topology = compute_node.numa_topology
        if topology:
            # Hide the CPUs that an instance of this class must not use.
            topology = numa.limit_to_class(
                objects.NUMATopology.obj_from_db_obj(topology), report,
                request.demand)._to_json()
        # The ratios of the host itself: a forced target brings no limits, nor
        # does a live migration in Nova 31 to 33 (Launchpad bug 2153425).
        ram_ratio = compute_node.ram_allocation_ratio
        limits = limit.obj_clone() if limit else objects.NUMATopologyLimits()
        limits.cpu_allocation_ratio = float(report.ratio)
        # A mix host never overcommits memory.
        limits.ram_allocation_ratio = (
            min(ram_ratio, 1.0) if report.mix else ram_ratio)
        return refusals, objects.ComputeNode(numa_topology=topology), limits


class PriorityClaim(_ClassTest, claims.Claim):
    """A claim for an instance that is new on the host."""


class PriorityMoveClaim(_ClassTest, claims.MoveClaim):
    """A claim for an instance that moves to the host."""

    def __init__(self, context, instance, nodename, flavor, image_meta,
                 tracker, compute_node, pci_requests, migration, limits=None):
        if _has_ledger(tracker) and tracker.keeps_pci_requests(
                instance, migration):
            # Nova would claim for new requests, and saves ``pci_requests``
            # with the claim: change the object itself.
            pci_requests.requests = instance.pci_requests.requests
        super().__init__(context, instance, nodename, flavor, image_meta,
                         tracker, compute_node, pci_requests, migration,
                         limits=limits)
