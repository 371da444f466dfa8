# SPDX-License-Identifier: Apache-2.0


"""What an audit finds."""

import dataclasses

from nova.virt import hardware

#: Kinds of findings, and what an operator does about each.
MISSING_ALLOCATION = 'missing_allocation'
WRONG_CLASS = 'wrong_class'
WRONG_AMOUNT = 'wrong_amount'
ORPHANED_ALLOCATION = 'orphaned_allocation'
LEFT_ALLOCATION = 'left_allocation'
UNFINISHED_MIGRATION = 'unfinished_migration'
WRONG_INVENTORY = 'wrong_inventory'
WRONG_TRAITS = 'wrong_traits'
WRONG_AGGREGATES = 'wrong_aggregates'
UNREADABLE_REPORT = 'unreadable_report'
OLD_REPORT = 'old_report'
OVERSOLD = 'oversold'
SAME_CPU = 'same_cpu'
CPU_OUTSIDE = 'cpu_outside'
OTHER_CPUS = 'other_cpus'
OLD_CPUSET = 'old_cpuset'
WRONG_PARTITION = 'wrong_partition'
UNKNOWN_GUEST = 'unknown_guest'
UNREAD = 'unread'

_FIX = 'Run the audit with --fix.'
_UPDATE = ('nova-compute reports it anew in its next update: see in its log '
           'why it did not.')
_MOVE = 'Migrate the instance, live or cold.'
_REBOOT = 'Reboot the instance hard, or migrate it.'

REMEDIES = {
    MISSING_ALLOCATION: _FIX,
    WRONG_CLASS: _FIX,
    WRONG_AMOUNT: _FIX,
    ORPHANED_ALLOCATION: _FIX,
    LEFT_ALLOCATION: _FIX,
    UNFINISHED_MIGRATION: _FIX,
    WRONG_INVENTORY: _FIX,
    WRONG_TRAITS: _FIX,
    WRONG_AGGREGATES: _FIX,
    UNREADABLE_REPORT: 'Restart nova-compute there, with a release of '
                       'nova-prio that the controllers have too.',
    OLD_REPORT: _UPDATE,
    OVERSOLD: 'Migrate instances away, or set the CPU sets, '
              'cpu_priority_mix_enable and the CPU allocation ratio as they '
              'were.',
    SAME_CPU: _MOVE,
    CPU_OUTSIDE: _MOVE,
    OTHER_CPUS: _REBOOT,
    OLD_CPUSET: _REBOOT,
    WRONG_PARTITION: _REBOOT,
    UNKNOWN_GUEST: 'See running_deleted_instance_action in nova.conf, or stop '
                   'the guest with virsh.',
    UNREAD: 'Mend that, and run the audit again.',
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that does not agree, or that should not be.

    ``consumer`` is the UUID of the instance or migration that it is about,
    '' where it is about the host. What an instance or host needs, and what
    Placement, nova-compute and libvirt say of it, stand in the four texts of
    that name, '' where that is not asked. ``note`` is a sentence more, or ''.
    ``repair`` is a function of a context and a report client, one of
    :mod:`nova_prio.admin.audit.repairs`, or None.
    """

    host: str
    kind: str
    consumer: str = ''
    needed: str = ''
    placement: str = ''
    compute: str = ''
    libvirt: str = ''
    note: str = ''
    repair: object = dataclasses.field(default=None, compare=False)

    @property
    def remedy(self):
        """What to know about it, and what to do, in sentences."""
        return ' '.join(filter(None, (self.note, REMEDIES.get(self.kind))))


def format_amounts(numbers):
    """Return amounts as they are shown: "PCPU=2 VCPU=1", or "nothing".

    :param numbers: dict, name -> number
    """
    return ' '.join('%s=%s' % item
                    for item in sorted(numbers.items())) or 'nothing'


def find_shared_cpus(users):
    """Yield the UUID of each user of a CPU with others, and a text of them.

    :param users: dict, CPU number -> set of UUIDs
    """
    for uuid in sorted(set().union(*users.values())):
        shared = {cpu: others for cpu, others in users.items()
                  if uuid in others and len(others) > 1}
        if shared:
            yield uuid, 'CPUs %s, with %s' % (
                hardware.format_cpu_spec(shared), ' '.join(sorted(
                    set().union(*shared.values()) - {uuid})))
