# SPDX-License-Identifier: Apache-2.0

"""Compare a host with its plan, Placement, nova-compute and libvirt."""

from collections import abc
import typing

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import run
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import state
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import traits as prio_traits
from nova_prio.virt import driver_alias

COLUMNS = ('Item', 'Plan', 'Placement', 'Compute', 'Libvirt', 'State',
           'Remedy')
OK, DIFFERS, UNREAD = 'ok', 'differs', 'unread'
#: Items that only a priority host has.
REPORT, AGGREGATE = 'report', 'aggregate'

_CONFIGURE = ('Set the options of nova-compute as planned, and restart '
              'nova-compute.')
_WAIT = ('Wait for the next update of nova-compute; if the value stays, see '
         'its log.')


class VerifyLine(typing.NamedTuple):
    """The values of one item; '' if a source does not know the item.

    An item is what one line compares: an option, an inventory, the traits, a
    row of the capacity (see :mod:`nova_prio.model.cpu_capacity`), or a
    finding.

    ``state`` is OK, DIFFERS or UNREAD, ``remedy`` a sentence or ''.
    ``consumer`` is the UUID of an instance or a migration in ``item``, or ''.
    """

    item: str
    plan: plan_format.Value = ''
    placement: plan_format.Value = ''
    compute: plan_format.Value = ''
    libvirt: plan_format.Value = ''
    state: str = DIFFERS
    remedy: str = ''
    consumer: str = ''


_VerifyLines = abc.Iterator[VerifyLine]


def list_lines(view: host_view.HostView, audit: run.CloudAudit,
               plan: plan_format.SavedPlan | None = None) -> _VerifyLines:
    """Yield the VerifyLines of a host; audit the host to do so.

    Each line compares one item, such as an option, in the sources that know
    it. A report is what nova-compute with the driver of this package writes
    about the CPUs of its host.

    :param plan: None if there is none to compare with
    """
    report = view.report
    if not view.is_up:
        yield VerifyLine('nova-compute', compute='down', remedy='Start '
                         'nova-compute: its report is out of date.')
    if report is None:
        yield VerifyLine(
            REPORT, compute=view.problem or 'none',
            remedy='Set compute_driver = %s on the host, and restart '
            'nova-compute.' % driver_alias.DRIVER)
    else:
        yield from _list_problems(report)
    if not view.allows_priority:
        yield VerifyLine(AGGREGATE, compute='none for priority instances',
                         remedy='Add the host to a host aggregate with '
                         'priority_mix=true.')
    if plan:
        if report:
            yield from _compare_options(plan.planned_cpus, report)
        yield from _compare_placement(plan, view)
        if report:
            yield from _compare_rows(plan.planned_cpus, report)
    # The host has one compute node, so the audit yields one pair: the findings
    # and a HostView.
    (findings, _), = audit.run([view.name])
    for each in findings:
        item = ('%s %s' % (each.kind, each.consumer)).rstrip()
        line_state = UNREAD if each.kind == finding.UNREAD else DIFFERS
        remedy = each.remedy
        if plan and each.kind == 'blocked_cpus':
            remedy += _name_floating(plan, view)
        # The column of the plan has the values that the audit expects, and the
        # other columns what Placement, nova-compute and libvirt have.
        yield VerifyLine(
            item, plan=each.needed, placement=each.placement,
            compute=each.compute, libvirt=each.libvirt, state=line_state,
            remedy=remedy, consumer=each.consumer)
    summary = audit.summarize(view)
    yield VerifyLine('in use', placement=summary.placement,
                     compute=summary.compute, libvirt=summary.libvirt,
                     state=OK)


def _name_floating(plan: plan_format.SavedPlan,
                   view: host_view.HostView) -> str:
    """Return a sentence with the instances that may block CPUs, or ''.

    A guest floats on CPUs where it may run, but is not pinned. A dedicated CPU
    is blocked if a guest floats there that should not: nova-compute pins no
    instance to it. The plan expected this of the guests of these instances,
    which were started with the old CPU sets. A reboot gives a guest the new
    ones. Only the host knows which guests were rebooted since, so name all of
    these instances that are still on the host.
    """
    named = ['%s (%s)' % (uuid, view.names[uuid])
             for uuid in plan.floating if uuid in view.names]
    if not named:
        return ''
    return ' Of those that float in the plan, these are here: %s.' % (
        ', '.join(named))


def _list_problems(report: capacity_report.CapacityReport) -> _VerifyLines:
    """Yield a VerifyLine for each problem in a CapacityReport.

    nova-compute writes the report about the CPUs of its host. A partition is
    the cgroup of all guests of one priority. A VerifyLine has the name of an
    item and its values: ``compute`` is the one that nova-compute reports.
    """
    if report.problem:
        yield VerifyLine('nova-compute', compute=report.problem,
                         remedy='See the log of nova-compute on the host.')
    if report.partition_problem:
        yield VerifyLine('partitions', compute=report.partition_problem,
                         remedy='Run "nova-prio-host prepare" on the host as '
                         'root.')


def _compare_options(
        planned_cpus: cpu_capacity.HostCPUs,
        report: capacity_report.CapacityReport) -> _VerifyLines:
    """Yield a VerifyLine for each option of nova-compute about the CPUs.

    :param report: in which nova-compute writes its values of these options
    """
    present = plan_format.format_options(report.cpus)
    for name, planned in plan_format.format_options(planned_cpus).items():
        # The state and the remedy are for values that differ.
        line = VerifyLine(
            name, planned, compute=present[name], remedy=_CONFIGURE)
        if name == 'cpu_allocation_ratio':
            # The texts of equal ratios may differ, such as 2 and 2.0.
            yield _compare(line, planned_cpus.ratio, report.ratio)
        else:
            yield _compare(line, planned, present[name])


def _compare_placement(
        plan: plan_format.SavedPlan,
        view: host_view.HostView) -> _VerifyLines:
    """Yield a VerifyLine for each inventory of the plan, and for the traits.

    A VerifyLine compares one item in the plan and in Placement.
    ``plan.old_inventories`` has a key for each resource class of the plan.
    """
    # The planned values may have changed: max_unit depends on the usage.
    inventories = state.plan_inventories(view, plan.planned_cpus)
    for name in plan.old_inventories:
        planned = inventories.get(name, {})
        present = view.inventories.get(name, {})
        # The remedy, to wait for nova-compute, is for values that differ: if
        # they are equal, _compare sets the state OK and removes the remedy.
        line = VerifyLine('inventory ' + name, planned, placement=present,
                          remedy=_WAIT)
        yield _compare(line, planned, present)
    traits = prio_traits.select_ours(view.traits)
    remedy = _WAIT
    if prio_traits.CPU_PRIORITY_DISABLED in traits:
        remedy = 'Run "nova-prio host enable %s".' % view.name
    # Both lists are sorted.
    line = VerifyLine('traits', ' '.join(plan.planned_traits),
                      placement=' '.join(traits), remedy=remedy)
    yield _compare(line, plan.planned_traits, traits)


def _compare_rows(
        planned_cpus: cpu_capacity.HostCPUs,
        report: capacity_report.CapacityReport) -> _VerifyLines:
    """Yield a VerifyLine for the sellable vCPUs of each row of a host.

    A row is the number of vCPUs of one kind that the host may sell, such as
    "high" for pinned vCPUs.
    """
    for row in cpu_capacity.Rows._fields:
        planned = getattr(planned_cpus.sellable, row)
        present = getattr(report.sellable, row)
        # The remedy, to set the options as planned, is for values that differ:
        # if they are equal, _compare sets the state OK and removes the remedy.
        line = VerifyLine('sellable ' + row, str(planned),
                          compute=str(present), remedy=_CONFIGURE)
        yield _compare(line, planned, present)


def _compare(line: VerifyLine, planned: object, present: object) -> VerifyLine:
    """Return a VerifyLine, with state OK and no remedy if values are equal.

    :param line: with the state and the remedy for values that differ
    """
    if planned == present:
        return line._replace(state=OK, remedy='')
    return line
