# SPDX-License-Identifier: Apache-2.0

"""The findings of an audit."""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova.virt import hardware

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report

_FIX = 'Run the audit with --fix.'
_MOVE = 'Migrate the instance, live or cold.'
_REBOOT = 'Reboot the instance hard, or migrate it.'
#: Kind of the finding that a source of the audit cannot be read.
UNREAD = 'unread'
#: Kind of finding -> what the operator should do.
REMEDIES = {
    'missing_allocation': _FIX,
    'wrong_class': _FIX,
    'wrong_amount': _FIX,
    'orphaned_allocation': _FIX,
    'left_allocation': _FIX,
    'unfinished_migration': _FIX,
    'wrong_inventory': _FIX,
    'wrong_traits': _FIX,
    'wrong_aggregates': _FIX,
    'unreadable_report': 'Restart nova-compute there, with a release of '
                         'nova-prio that the controllers have too.',
    'old_report': 'nova-compute should correct the report in its next update: '
                  'if it does not, see its log.',
    'blocked_cpus': 'Reboot hard or migrate the instances whose guests float '
                    'on stale CPU sets: to list them, run "nova-prio-status '
                    'upgrade check" on the host.',
    'oversold': 'Migrate instances away, or set the CPU sets, '
                'cpu_priority_mix_enable, the CPU allocation ratio and the '
                'pools of huge pages as they were.',
    'pin_conflict': 'Migrate one of the two instances. If its guest is off, '
                    'migrate it cold, or shelve and unshelve it. If one of '
                    'them awaits the confirmation of a resize, confirm the '
                    'resize first.',
    'same_cpu': _MOVE,
    'cpu_outside': _MOVE,
    'other_cpus': _REBOOT,
    'old_cpuset': _REBOOT,
    'wrong_partition': _REBOOT,
    'unknown_guest': 'First check whether the instance runs on the host that '
                     'Nova shows. If not, as after a failed live migration, '
                     'shut this guest down with virsh, and reboot the '
                     'instance hard. Otherwise, stop this guest with virsh '
                     '(for deleted instances, see '
                     'running_deleted_instance_action in nova.conf).',
    UNREAD: 'Correct that, and run the audit again.',
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """A difference between the sources of an audit, or an invalid state.

    ``kind`` is a key of ``REMEDIES``, or '' if the object has the totals of a
    host and is no finding. ``consumer`` is the UUID of the instance
    or migration, '' if the finding is about the host. ``needed`` is the
    expected state as a text; ``placement``, ``compute`` and ``libvirt`` are
    the states in these sources, '' if the audit did not compare a source.
    The source of ``compute`` is the report of nova-compute, or the records of
    instances and migrations in Nova's database.
    ``note`` is one more sentence, or ''. ``repair`` repairs the difference,
    see :mod:`nova_prio.admin.audit.repairs`; it is None if no code does.
    ``next_step`` is what the operator should do after the repair, or ''.
    ``host`` is the name of the host, which the function that audits it sets.
    """

    kind: str
    consumer: str = ''
    needed: str = ''
    placement: str = ''
    compute: str = ''
    libvirt: str = ''
    note: str = ''
    next_step: str = ''
    repair: abc.Callable[
        [nova_context.RequestContext, report.SchedulerReportClient],
        None] | None = dataclasses.field(default=None, compare=False)
    host: str = ''

    @property
    def remedy(self) -> str:
        """The note, and what the operator should do."""
        return ('%s %s' % (self.note, REMEDIES.get(self.kind, ''))).strip()


Findings = abc.Iterator[Finding]


def describe_orphans(names: str) -> str:
    """Return what to do about guests that Nova does not know, or ''.

    Such a guest has no instance. It keeps instances from being pinned to the
    dedicated CPUs on which it runs.

    :param names: names of these guests as a text, '' without any
    """
    if not names:
        return ''
    return ('Nova does not know the guests %s: pin them to other CPUs with '
            'virsh vcpupin and virsh emulatorpin, or shut them down. If CPUs '
            'are still blocked a minute later, guests of instances block them '
            'too.' % names)


def set_host(host: str, findings: abc.Iterable[Finding]) -> list[Finding]:
    """Return findings with the name of their host."""
    return [dataclasses.replace(each, host=host) for each in findings]


def format_amounts(amounts: abc.Mapping[str, float | str]) -> str:
    """Return numbers by name as "PCPU=2 VCPU=1", or "nothing".

    :param amounts: name -> number, or a number as a text
    """
    return ' '.join('%s=%s' % item
                    for item in sorted(amounts.items())) or 'nothing'


def find_pins_outside(
        pins: abc.Mapping[str, abc.Set[int]], dedicated: frozenset[int],
) -> abc.Iterator[tuple[str, str]]:
    """Yield (UUID, text) for each instance with a CPU that is not dedicated.

    :param pins: UUID of an instance -> CPUs to which the instance is pinned
    :param dedicated: the dedicated CPUs of the host
    :returns: iterator; a text names the CPUs, such as "CPUs 2-3"
    """
    for uuid, cpus in pins.items():
        outside = cpus - dedicated
        if outside:
            yield uuid, 'CPUs %s' % hardware.format_cpu_spec(outside)


def find_pin_conflicts(
        pins: abc.Mapping[str, abc.Set[int]],
) -> abc.Iterator[tuple[str, str]]:
    """Yield (UUID, text) for each instance with a CPU of another instance.

    The text has all such CPUs, and the UUIDs of the other instances.

    :param pins: UUID of an instance -> CPUs to which the instance is pinned
    """
    for uuid, cpus in sorted(pins.items()):
        others = []
        common: set[int] = set()
        for other in sorted(pins.keys() - {uuid}):
            if cpus & pins[other]:
                others.append(other)
                common |= cpus & pins[other]
        if others:
            yield uuid, 'CPUs %s, with %s' % (
                hardware.format_cpu_spec(common), ' '.join(others))
