# SPDX-License-Identifier: Apache-2.0

"""The start gate: no guest starts on a CPU that another instance has.

The gate compares the CPUs on which an instance is pinned with the leases of
the host (:mod:`nova_prio.model.leases`), whatever Nova's records say. It also
refuses a guest whose record lacks CPUs. Any other guest may start that floats.
Blocked CPUs, on which guests of an older configuration float, do not matter
here: they restrict claims, never starts.
"""

import contextlib
import functools

from nova.compute import task_states
from nova import exception
from nova.virt import hardware
from oslo_log import log as logging

from nova_prio.model import leases
from nova_prio.objects import own_cpus
from nova_prio.virt import demand

LOG = logging.getLogger(__name__)

#: Step of ``containment.Steps`` in which ``use_lease`` may fail.
USE_LEASE = 'use the leased CPUs'


class CPUsLeased(exception.NovaException):
    """A guest must not start: it could run on CPUs of another instance."""


class StartGate:
    """The start gate of a host.

    ``is_settled`` is set when the periodic task of nova-compute has counted
    the instances for the first time. Earlier, guests start that have no lease
    yet.
    """

    def __init__(self, host_leases, steps):
        """Wait for the first count of the instances by the periodic task.

        :param host_leases: ``leases.Leases`` of the host
        :param steps: ``containment.Steps`` of the service, which logs an error
            of the gate: the guest then starts
        """
        self.is_settled = False
        self._leases = host_leases
        self._steps = steps
        # A context in which any error but CPUsLeased is only logged. The host
        # still takes priority instances.
        self._checking = functools.partial(
            steps.contain, 'check the CPUs of a guest before its start',
            refuse_on_error=False, reraised=(CPUsLeased,))

    def check(self, instance):
        """Refuse the start of an instance whose CPUs another one has.

        A leased CPU is kept for one instance, and no other instance gets it.
        If the record of the instance has other CPUs than this host has leased
        to it, write the leased ones into the record. If the CPUs are not
        leased yet, lease them. An unexpected error is only logged: the guest
        may start.

        Also refuse a guest with a vCPU that the topology in its record does
        not have: this vCPU would run on all CPUs. And refuse a guest that is
        to be pinned, but whose record has no pins.

        Call this before Nova destroys or undefines the old guest.

        :raises CPUsLeased: the text names the instances and the remedy
        """
        with self._checking():
            # If this fails, check the CPUs of the record.
            with self._steps.contain(USE_LEASE, refuse_on_error=False):
                self.use_lease(instance)
            if not demand.has_all_vcpus(instance, instance.numa_topology):
                _refuse(instance.uuid, {})
            self._take(instance.uuid, demand.get_lease_set(
                instance.flavor, instance.numa_topology))

    def check_arrival(self, instance, numa_info):
        """Refuse a live migration to CPUs that another instance has.

        If no other instance has them, lease the CPUs to this one: no other
        instance then gets them. An unexpected error is only logged: the guest
        may arrive.

        :param numa_info: nova.objects.LibvirtLiveMigrateNUMAInfo of this host
        :raises nova.exception.MigrationError: instead of CPUsLeased
        """
        try:
            with self._checking():
                cpus = frozenset().union(*numa_info.cpu_pins.values())
                dedicated = hardware.get_cpu_dedicated_set() or frozenset()
                self._take(instance.uuid, leases.LeaseSet(cpus & dedicated))
        except CPUsLeased as refused:
            raise exception.MigrationError(reason=str(refused))

    @contextlib.contextmanager
    def starting(self, instance, host):
        """Check a start, and keep the lease until the start has ended.

        The lease is the CPUs and vCPUs that this host keeps for the instance.
        Start the guest in this context.

        :param host: name of this host
        :raises: if another instance has the CPUs, an error that fits Nova's
            operation; see ``_check_operation``
        """
        self._leases.begin_start(instance.uuid)
        try:
            self._check_operation(instance, host)
            yield
        finally:
            self._leases.end_start(instance.uuid)

    def _check_operation(self, instance, host):
        """Check a start, and refuse it with an error that fits the operation.

        The check refuses a guest whose CPUs another instance has. The error
        decides what Nova does next, for example whether it tries another host.

        :param host: name of this host
        """
        try:
            self.check(instance)
        except CPUsLeased as refused:
            if instance.task_state == task_states.SPAWNING:
                # Nova tries the next host, and counts no failed build.
                raise exception.GroupAffinityViolation(str(refused))
            if (instance.task_state in task_states.rebuild_states and
                    instance.host != host):
                # This is an evacuation: the instance keeps its state, and the
                # evacuation can be tried again.
                raise exception.ComputeResourcesUnavailable(
                    reason=str(refused))
            raise

    def use_lease(self, instance):
        """Give an instance the CPUs of its lease if its record differs.

        Its lease is a list of LeaseSets: the CPUs and vCPUs that this host
        keeps for the instance, one set for each flavor. After some failures,
        the record of an instance has the CPUs of another host or of an earlier
        move. Nova's next save repairs the record. A set of another flavor, to
        which a resize has failed, does not suit.

        The instance has two sets of CPUs here if it is resized on this host,
        and none before the first recount since nova-compute has started. Then
        its last move tells which CPUs it has.
        """
        pins = demand.get_instance_pins(instance)
        # A set that was read from a guest has no topology, so that it could
        # not replace that of the record.
        sets = [each for each in self._leases.get(instance.uuid)
                if each.cpus and each.topology]
        if not pins:
            return
        if len(sets) != 1:
            own_cpus.correct_cpus(instance)
            return
        lease, = sets
        if lease.cpus == pins or not demand.has_all_vcpus(
                instance, lease.topology):
            return
        LOG.warning(
            'The record of the instance has the CPUs %s, but the CPUs %s of '
            'this host are leased to it. The guest starts on the latter, and '
            'the record is corrected.', hardware.format_cpu_spec(pins),
            hardware.format_cpu_spec(lease.cpus), instance=instance)
        instance.numa_topology = lease.topology.obj_clone()

    def _take(self, uuid, wanted):
        """Lease CPUs that the instance has not leased yet.

        Warn of them, because a claim should have leased them before.

        :param wanted: LeaseSet with the CPUs on which the guest is to start
        :raises CPUsLeased: if another instance has one of these CPUs
        """
        own = self._leases.get_cpus(uuid)
        if wanted.cpus <= own:
            return
        owners = self._leases.begin(uuid, wanted)
        if owners:
            _refuse(uuid, owners)
        # Before the periodic task has counted the instances for the first
        # time, only the CPUs of running guests are leased: then such a start
        # is no reason for a warning.
        log = LOG.warning if self.is_settled else LOG.debug
        log('A guest starts on the CPUs %s, which were not leased to its '
            'instance, nor to another one.',
            hardware.format_cpu_spec(wanted.cpus - own), instance_uuid=uuid)


def _refuse(uuid, owners):
    text = format_refusal(uuid, owners)
    LOG.error(text, instance_uuid=uuid)
    raise CPUsLeased(text)


def format_refusal(uuid, owners):
    """Return why an instance cannot start, a text with the remedy.

    :param owners: dict, UUID of an instance -> frozenset of CPU numbers; empty
        if the record of the instance itself lacks CPUs
    """
    if not owners:
        return ('Instance %s cannot start: its record does not have a CPU for '
                'each vCPU of its flavor, as after a resize that has failed. '
                'Reset its state, and resize it again.' % uuid)
    owned = ', '.join('CPUs %s to instance %s' % (
        hardware.format_cpu_spec(cpus), owner)
        for owner, cpus in sorted(owners.items()))
    return ('Instance %s cannot start on its CPUs: this host has leased %s. '
            'While the instance is off, migrate it cold, or shelve and '
            'unshelve it; then it gets free CPUs.' % (uuid, owned))
