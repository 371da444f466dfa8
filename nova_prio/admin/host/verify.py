# SPDX-License-Identifier: Apache-2.0

"""Compare a host with its plan, Placement, nova-compute and libvirt."""

import typing

from nova_prio.admin.audit import finding
from nova_prio.admin.host import plan as host_plan
from nova_prio.admin.host import plan_format
from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.placement import traits as prio_traits
from nova_prio.virt import driver_alias

COLUMNS = ('Item', 'Plan', 'Placement', 'Compute', 'Libvirt', 'State',
           'Remedy')
OK, DIFFERS, UNREAD = 'ok', 'differs', 'unread'

_CONFIGURE = ('Set the options of nova-compute as planned, and restart '
              'nova-compute.')
_WAIT = ('Wait for the next update of nova-compute; if the value stays, see '
         'its log.')


class VerifyLine(typing.NamedTuple):
    """The values of one item; '' if a source does not know the item.

    Values are a str or a dict, name -> number. ``state`` is one of the
    constants, ``remedy`` a sentence or ''.
    """

    item: str
    plan: object = ''
    placement: object = ''
    compute: object = ''
    libvirt: object = ''
    state: str = DIFFERS
    remedy: str = ''


def list_lines(host_state, findings, summary, plan=None):
    """Yield the VerifyLines of a host.

    :param host_state: ``state.HostState``
    :param findings: list of Finding, of the audit of the host
    :param summary: Finding with the amounts of the host in each source
    """
    report = host_state.view.report
    if not host_state.is_up:
        yield VerifyLine('nova-compute', compute='down', remedy='Start '
                         'nova-compute: its report is out of date.')
    if report is None:
        yield VerifyLine(
            'report', compute=host_state.view.problem or 'none',
            remedy='Set compute_driver = %s on the host, and restart '
            'nova-compute.' % driver_alias.DRIVER)
    else:
        yield from _list_problems(report)
    if not host_state.is_marked:
        yield VerifyLine('aggregate', compute='none for priority instances',
                         remedy='Add the host to a host aggregate with '
                         'priority_mix=true.')
    if plan:
        yield from _compare_plan(plan, host_state.view, report)
    for each in findings:
        yield VerifyLine(
            ' '.join(filter(None, (each.kind, each.consumer))), each.needed,
            each.placement, each.compute, each.libvirt,
            UNREAD if each.kind == finding.UNREAD else DIFFERS, each.remedy)
    yield VerifyLine('in use', '', summary.placement, summary.compute,
                     summary.libvirt, OK)


def _list_problems(report):
    """Yield the problems that nova-compute reports."""
    if report.problem:
        yield VerifyLine('nova-compute', compute=report.problem,
                         remedy='See the log of nova-compute on the host.')
    if report.partition_problem:
        yield VerifyLine('partitions', compute=report.partition_problem,
                         remedy='Run "nova-prio-host prepare" on the host as '
                         'root.')
    if report.blocked:
        yield VerifyLine(
            'kept CPUs', compute='CPUs ' + report.blocked_cpus,
            libvirt=report.blocked_by,
            remedy='Guests on stale CPU sets float on these CPUs: hard reboot '
            'them, or migrate them, and wait for the next update of '
            'nova-compute. No instance is pinned to these CPUs before.')


def _compare_plan(plan, view, report):
    """Yield the planned values beside the present values."""
    for name, present in (get_options(report).items() if report else ()):
        planned = plan.then.get((plan_format.OPTION, name), '')
        yield _compare(are_equal(name, planned, present), _CONFIGURE, name,
                       planned, compute=present)
    # max_unit depends on the present usage.
    inventories = host_plan.plan_inventories(view, plan_format.get_cpus(plan))
    for (part, name), planned in plan.then.items():
        if part == plan_format.INVENTORY:
            planned = inventories.get(name, {})
            present = view.inventories.get(name, {})
            yield _compare(planned == present, _WAIT, 'inventory ' + name,
                           planned, present)
        elif part == plan_format.TRAITS:
            present = ' '.join(prio_traits.select_ours(view.traits))
            remedy = _WAIT
            if prio_traits.CPU_PRIORITY_DISABLED in view.traits:
                remedy = 'Run "nova-prio host enable %s".' % view.name
            yield _compare(planned == present, remedy, 'traits', planned,
                           present)
        elif (part == plan_format.ROOM and report and
              name in capacity.Rows._fields):
            present = getattr(report.sellable, name)
            yield _compare(planned['sellable'] == present, _CONFIGURE,
                           'sellable ' + name, str(planned['sellable']),
                           compute=str(present))


def _compare(is_equal, remedy, *values, **more):
    if is_equal:
        return VerifyLine(*values, **more, state=OK)
    return VerifyLine(*values, **more, remedy=remedy)


def get_options(report):
    """Return dict, option -> value, a str, from the report of a host."""
    return {'cpu_dedicated_set': report.cpu_dedicated_set,
            'cpu_shared_set': report.cpu_shared_set,
            'cpu_allocation_ratio': report.cpu_allocation_ratio,
            'cpu_priority_mix_enable': str(report.mix).lower()}


def are_equal(name, planned, present):
    """Return whether two texts mean the same value of an option."""
    parse = str
    if name == 'cpu_allocation_ratio':
        parse = capacity.parse_ratio
    elif name.endswith('_set'):
        parse = host_report.parse_cpu_set
    return parse(planned) == parse(present)
