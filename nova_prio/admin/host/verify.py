# SPDX-License-Identifier: Apache-2.0

"""Compare a host with its plan, Placement, nova-compute and libvirt."""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.admin.audit import finding
from nova_prio.admin.host import plan as host_plan
from nova_prio.admin.host import plan_format
from nova_prio.model import capacity
from nova_prio.model import traits as prio_traits
from nova_prio.virt import driver_alias

if typing.TYPE_CHECKING:
    from nova_prio.admin.audit import host_view
    from nova_prio.model import capacity_report

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


def list_lines(
        view: host_view.HostView, findings: abc.Iterable[finding.Finding],
        summary: finding.Finding, plan: plan_format.SavedPlan | None = None,
) -> abc.Iterator[VerifyLine]:
    """Yield the VerifyLines of a host.

    :param findings: of the audit of the host
    :param summary: has the usage of the host in Placement, nova-compute and
        libvirt
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
    for each in findings:
        # The column of the plan has the values that the audit expects.
        yield VerifyLine(
            ('%s %s' % (each.kind, each.consumer)).rstrip(), plan=each.needed,
            placement=each.placement, compute=each.compute,
            libvirt=each.libvirt,
            state=UNREAD if each.kind == finding.UNREAD else DIFFERS,
            remedy=each.remedy, consumer=each.consumer)
    yield VerifyLine('in use', placement=summary.placement,
                     compute=summary.compute, libvirt=summary.libvirt,
                     state=OK)


def _list_problems(
        report: capacity_report.CapacityReport) -> abc.Iterator[VerifyLine]:
    """Yield a VerifyLine for each problem in a CapacityReport."""
    if report.problem:
        yield VerifyLine('nova-compute', compute=report.problem,
                         remedy='See the log of nova-compute on the host.')
    if report.partition_problem:
        yield VerifyLine('partitions', compute=report.partition_problem,
                         remedy='Run "nova-prio-host prepare" on the host as '
                         'root.')


def _compare_options(
        planned_cpus: capacity.HostCPUs,
        report: capacity_report.CapacityReport) -> abc.Iterator[VerifyLine]:
    """Yield a VerifyLine for each option of a CapacityReport."""
    present = plan_format.format_options(report.cpus)
    for name, planned in plan_format.format_options(planned_cpus).items():
        line = VerifyLine(
            name, planned, compute=present[name], remedy=_CONFIGURE)
        if name == 'cpu_allocation_ratio':
            # The texts of equal ratios may differ, such as 2 and 2.0.
            yield _compare(line, planned_cpus.ratio, report.ratio)
        else:
            yield _compare(line, planned, present[name])


def _compare_placement(
        plan: plan_format.SavedPlan,
        view: host_view.HostView) -> abc.Iterator[VerifyLine]:
    """Yield a VerifyLine for each inventory of the plan, and for the traits.

    ``plan.old_inventories`` has a key for each resource class of the plan.
    """
    # Plan again: max_unit depends on the present usage.
    inventories = host_plan.plan_inventories(view, plan.planned_cpus)
    for name in plan.old_inventories:
        planned = inventories.get(name, {})
        present = view.inventories.get(name, {})
        yield _compare(VerifyLine('inventory ' + name, planned, present,
                                  remedy=_WAIT), planned, present)
    traits = prio_traits.select_ours(view.traits)
    remedy = _WAIT
    if prio_traits.CPU_PRIORITY_DISABLED in traits:
        remedy = 'Run "nova-prio host enable %s".' % view.name
    yield _compare(
        VerifyLine('traits', plan=' '.join(plan.planned_traits),
                   placement=' '.join(traits), remedy=remedy),
        plan.planned_traits, traits)


def _compare_rows(
        planned_cpus: capacity.HostCPUs,
        report: capacity_report.CapacityReport) -> abc.Iterator[VerifyLine]:
    """Yield a VerifyLine for the sellable vCPUs of each row of a host."""
    for row, planned, present in zip(
            capacity.Rows._fields, planned_cpus.sellable, report.sellable):
        yield _compare(
            VerifyLine('sellable ' + row, plan=str(planned),
                       compute=str(present), remedy=_CONFIGURE),
            planned, present)


def _compare(line: VerifyLine, planned: object, present: object) -> VerifyLine:
    """Return a VerifyLine, with state OK and no remedy if values are equal."""
    return (line._replace(state=OK, remedy='') if planned == present
            else line)
