# SPDX-License-Identifier: Apache-2.0

"""The findings of an audit."""

import collections
import dataclasses

from nova.virt import hardware

#: Kinds of findings that the audit can repair.
MISSING_ALLOCATION = 'missing_allocation'
WRONG_CLASS = 'wrong_class'
WRONG_AMOUNT = 'wrong_amount'
ORPHANED_ALLOCATION = 'orphaned_allocation'
LEFT_ALLOCATION = 'left_allocation'
UNFINISHED_MIGRATION = 'unfinished_migration'
WRONG_INVENTORY = 'wrong_inventory'
WRONG_TRAITS = 'wrong_traits'
WRONG_AGGREGATES = 'wrong_aggregates'
#: Kinds of findings that an operator must correct.
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
_MOVE = 'Migrate the instance, live or cold.'
_REBOOT = 'Reboot the instance hard, or migrate it.'
_REMEDIES = {
    UNREADABLE_REPORT: 'Restart nova-compute there, with a release of '
                       'nova-prio that the controllers have too.',
    OLD_REPORT: 'nova-compute should correct the report in its next update: '
                'if it does not, see its log.',
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
    UNREAD: 'Correct that, and run the audit again.',
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """A difference, or a state that must not be.

    ``consumer`` is the UUID of the instance or migration, '' for the host.
    ``needed`` is the expected state as a text; ``placement``, ``compute`` and
    ``libvirt`` are the states that these know, '' if they were not asked.
    ``note`` is one more sentence, or ''. ``repair`` is None or a function of
    a context and a report client; see :mod:`nova_prio.admin.audit.repairs`.
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
        """The note, and what the operator should do."""
        remedy = _FIX if self.repair else _REMEDIES.get(self.kind)
        return ' '.join(filter(None, (self.note, remedy)))


def format_amounts(amounts):
    """Return a dict of numbers as "PCPU=2 VCPU=1", or "nothing"."""
    return ' '.join('%s=%s' % item
                    for item in sorted(amounts.items())) or 'nothing'


def find_shared_cpus(pins):
    """Yield (UUID, text) for each guest with a CPU of another one.

    :param pins: dict, UUID -> set of CPU numbers
    """
    users = collections.defaultdict(set)
    for uuid, cpus in pins.items():
        for cpu in cpus:
            users[cpu].add(uuid)
    for uuid, cpus in sorted(pins.items()):
        shared = {cpu for cpu in cpus if len(users[cpu]) > 1}
        if shared:
            others = set().union(*map(users.get, shared)) - {uuid}
            yield uuid, 'CPUs %s, with %s' % (
                hardware.format_cpu_spec(shared), ' '.join(sorted(others)))
