# SPDX-License-Identifier: Apache-2.0

"""Claims on a host, which also test its rows and lease its CPUs.

The host states of the scheduler are stale when many instances are created at
once. A claim is made under the lock of the tracker, and decides. It trusts
the numbers of nova-compute: the limits from the scheduler are older.
"""

from nova.compute import claims
import nova.conf
from nova import exception
from nova.objects import fields

from nova_prio.model import admission
from nova_prio.model import flavor_specs
from nova_prio.virt import demand

CONF = nova.conf.CONF

_EVACUATION = fields.MigrationType.EVACUATION


class _PriorityTest:
    """Test the claim for the class of its instance: high, low or ordinary.

    Test the rows of the host and its memory, and hide the CPUs that Nova must
    not use for the NUMA fit. Then lease the CPUs.
    """

    def _test_numa_topology(self, compute_node, limit, /):
        """Return all reasons to refuse the claim in one text, or None.

        If our test raises an error, this claim of a priority instance is
        refused. For an ordinary instance, only Nova's test counts then. There
        is one exception: an ordinary instance with pinned CPUs is refused on a
        mix host, because Nova does not know the blocked CPUs.
        """
        steps = self.tracker.priority_host.steps
        refusals = []
        # An error is only recorded here; the lines below decide.
        with steps.contain(
                'test a claim', refuse_on_error=False,
                reraised=(exception.ComputeResourcesUnavailable,)) as outcome:
            # The limits that Nova then tests are those of the row.
            refusals, compute_node, limit = self._test_capacity(
                compute_node, limit)
        if outcome.problem and self._needs_our_test():
            refusals = [outcome.problem]
        unfit = super()._test_numa_topology(compute_node, limit)
        if unfit:
            refusals.append(str(unfit))
        if not refusals:
            with steps.contain('lease the CPUs of a claim',
                               refuse_until_recount=True):
                refusals = self.tracker.priority_host.lease_claim(
                    self.instance.uuid, self._get_flavor(),
                    self.claimed_numa_topology,
                    self.migration and self.migration.uuid)
        return '; '.join(refusals) or None

    def __enter__(self):
        """Keep the lease until Nova's call that made the claim has ended."""
        self.tracker.priority_host.leases.begin_call(self.instance.uuid)
        return super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb):
        """Give the claim back after an error; an evacuation goes on."""
        goes_on = (self.migration is not None and
                   self.migration.migration_type == _EVACUATION)
        if exc_type is not None or not goes_on:
            self.tracker.priority_host.leases.end_call(self.instance.uuid)
        super().__exit__(exc_type, exc_val, exc_tb)

    def _get_flavor(self):
        # Of Nova's claims, only a MoveClaim has a flavor.
        return getattr(self, 'flavor', self.instance.flavor)

    def _needs_our_test(self):
        """Return whether Nova's test alone is not sufficient."""
        topology = self.numa_topology
        return flavor_specs.EXTRA_SPEC in self._get_flavor().extra_specs or (
            bool(CONF.cpu_priority_mix_enable and topology and
                 any(cell.pcpuset for cell in topology.cells)))

    def _test_capacity(self, compute_node, limit):
        """Test the claim as ``PriorityHost.find_refusals`` does."""
        request = demand.ResourceRequest.from_flavor(
            self._get_flavor(), self.numa_topology)
        refusals, node, limits = self.tracker.priority_host.find_refusals(
            request, self.instance.uuid, compute_node, limit,
            self.tracker.read_inventories)
        if request.priority and (
                self.tracker.is_disabled_for_priority(self.nodename)):
            refusals.insert(0, admission.Refusal('disabled').detail)
        return refusals, node, limits


class PriorityClaim(_PriorityTest, claims.Claim):
    """A claim for an instance that is new on the host."""


class PriorityMoveClaim(_PriorityTest, claims.MoveClaim):
    """A claim for an instance that moves to the host."""

    def __init__(self, context, instance, nodename, flavor, image_meta,
                 tracker, compute_node, pci_requests, migration, limits=None):
        if tracker.keeps_pci_requests(instance, migration):
            # Nova would claim for new requests, and saves ``pci_requests``
            # with the claim: change the object itself.
            pci_requests.requests = instance.pci_requests.requests
        super().__init__(context, instance, nodename, flavor, image_meta,
                         tracker, compute_node, pci_requests, migration,
                         limits=limits)
