# SPDX-License-Identifier: Apache-2.0

"""The ends of the leases of a host, each by evidence.

A lease is the CPUs and vCPUs that an instance has on the host, as one LeaseSet
for each flavor (:mod:`nova_prio.model.leases`). A recount is one run of the
periodic task of nova-compute, which counts the resources from zero.

A lease ends in two ways. Nova gives it back: then it ends at once, unless a
guest uses its CPUs. Or a recount does not count it: then the records are read
again, and the guest is asked for. If its migration is over, the lease ends at
once, and otherwise after two looks: a look is one reading of the records.
"""

import contextlib
import time

from oslo_log import log as logging

from nova_prio.objects import lease_end

LOG = logging.getLogger(__name__)


class LeaseEnds:
    """What ends the leases of a host."""

    def __init__(self, host_leases, guests, steps):
        """Have no evidence yet.

        :param host_leases: ``leases.Leases`` of the host
        :param guests: ``guests.HostGuests`` of the host
        :param steps: ``containment.Steps`` of the service, which logs the
            errors of this package instead of raising them
        """
        self._leases = host_leases
        self._guests = guests
        self._steps = steps
        # UUID of an instance that Nova frees now -> what giving_back has seen:
        # (number of starts of the guest, LeaseSets, CPUs that the guest uses).
        self._evidence = {}

    @contextlib.contextmanager
    def giving_back(self, uuid):
        """Return a context in which Nova frees what an instance has here.

        Nova frees a claim, one side of a move, or the whole instance. Our
        tracker then calls ``end_unless_used``. Nova may leave a guest
        behind, for example if libvirt went away while the guest was started.
        Then the lease must stay: the CPUs that this host keeps for the
        instance.

        Ask libvirt here which of these CPUs the guest uses. Nova takes the
        lock of its tracker later: a call that hangs must not stop the periodic
        task, which needs the lock. The answer is void if the guest was started
        again: therefore note the number of its starts.

        If libvirt cannot be asked, the lease stays, and the host refuses
        priority instances until the periodic task has counted its resources.

        :param uuid: UUID of the instance
        """
        # The evidence: number of starts of the guest, LeaseSets of the
        # instance, and CPUs of the lease that the guest uses. It says nothing
        # of a LeaseSet that begins later: end_unless_used ends none but these.
        with self._steps.contain('ask libvirt for the guest of a claim',
                                 refuse_until_recount=True):
            self._evidence[uuid] = (
                self._leases.count_starts(uuid), self._leases.get(uuid),
                self._guests.find_cpus_in_use(
                    uuid, self._leases.get_cpus(uuid)))
        try:
            yield
        finally:
            self._evidence.pop(uuid, None)

    def find_ended(self, context, host):
        """End the leases that Nova has not counted, and that nothing needs.

        A lease is the CPUs and vCPUs that this host keeps for an instance. If
        the check of one fails, the error is logged, and this lease stays.

        Call this after the periodic task has counted the instances, without
        the lock of the tracker: libvirt may hang, and claims need the lock.

        :param context: nova.context.RequestContext of an administrator
        :param host: name of this host
        :returns: whether a lease has ended
        """
        has_ended = False
        for uuid, each in self._leases.list_all():
            with self._steps.contain('end a lease', refuse_on_error=False):
                has_ended |= self._end_if_unneeded(context, host, uuid, each)
        return has_ended

    def _end_if_unneeded(self, context, host, uuid, lease_set):
        """End a LeaseSet if nothing needs it; return whether it has ended.

        A LeaseSet is the CPUs and vCPUs that this host keeps for an instance.
        Nova changes its records of one move in several writes. Unless the
        migration is over, a set ends only if a second look at them, some time
        after the first one, also finds that nothing needs the set.
        """
        # If the guest is started while the records are read, this number
        # changes, and the set stays.
        starts = self._leases.count_starts(uuid)
        need = self._find_need(context, host, uuid, lease_set)
        if need == lease_end.Need.NEEDED:
            lease_set.first_look = None
            return False
        # One look is sufficient if the migration of the set is over.
        is_certain = lease_set.look(
            time.monotonic(), need == lease_end.Need.OVER)
        has_ended = is_certain and self._leases.end(uuid, lease_set, starts)
        if has_ended:
            LOG.info('A lease has ended: %s.', need.value, instance_uuid=uuid)
        return has_ended

    def _find_need(self, context, host, uuid, lease_set):
        """Return the ``lease_end.Need`` of a LeaseSet.

        A LeaseSet is the CPUs that this host keeps for an instance with one of
        its flavors. It is needed if Nova counts it, if a call of Nova makes a
        claim or starts the guest, if Nova's records need it, or if the guest
        uses its CPUs.
        """
        if lease_set.is_counted or self._leases.is_in_hand(uuid):
            return lease_end.Need.NEEDED
        need = lease_end.read_need(context, host, uuid, lease_set)
        # An instance that is resized on this host has two sets. If the guest
        # uses CPUs of the set that Nova counts, this does not show that it
        # needs the other one: leave these CPUs out. Keep the CPUs of sets that
        # Nova does not count, because these sets may end as well.
        cpus = lease_set.cpus
        for each in self._leases.get(uuid):
            if each.is_counted:
                cpus = cpus - each.cpus
        # Ask libvirt for the guest only now. The periodic task has also read
        # the guests, but before the records were read: the guest may have
        # started since. If it starts after this call, the caller sees that
        # the number of its starts has changed.
        if self._guests.find_cpus_in_use(uuid, cpus):
            return lease_end.Need.NEEDED
        return need

    def end_unless_used(self, uuid, lease_set):
        """End a LeaseSet unless the guest uses its CPUs.

        Call this in the context of ``giving_back``, which has asked libvirt.

        :param uuid: UUID of the instance
        :param lease_set: LeaseSet, the CPUs and vCPUs that this host keeps for
            the instance
        :returns: whether the set has ended
        """
        # Number of starts of the guest, LeaseSets of the instance, and CPUs
        # that the guest uses. If libvirt was not asked, there are no LeaseSets
        # in it, so that the set stays, and ``starts`` is not used.
        starts, sets, in_use = self._evidence.get(uuid, (None, (), ()))
        # end() keeps the set if the guest was started since: then it has more
        # starts.
        return (lease_set in sets and lease_set.cpus.isdisjoint(in_use) and
                self._leases.end(uuid, lease_set, starts))
