# SPDX-License-Identifier: Apache-2.0

"""Whether a host has become what was planned: four accounts side by side."""

import typing

from nova_prio.admin.audit import finding
from nova_prio.admin.host import plan as calculated
from nova_prio.admin.host import plan_format
from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.placement import traits as prio_traits
from nova_prio.virt import driver_alias

COLUMNS = ('Item', 'Plan', 'Placement', 'Compute', 'Libvirt', 'State',
           'Remedy')
OK, DIFFERS, UNREAD = 'ok', 'differs', 'unread'

_CONFIGURE = ('Set the options of nova-compute as the plan says, and restart '
              'it.')
_WAIT = ('nova-compute reports it in its next update; if it does not, see its '
         'log.')


class VerifyLine(typing.NamedTuple):
    """What each says of one thing; '' where it does not know.

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


def list_lines(view, is_marked, is_up, found, summary, plan=None):
    """Yield the Lines of a host.

    :param found: list of Finding, of the audit of the host
    :param summary: Finding of what is said of it, side by side
    """
    report = view.report
    if not is_up:
        yield VerifyLine('nova-compute', compute='down',
                         remedy='Start it: what it reports is as old as that.')
    if report is None:
        yield VerifyLine(
            'report', compute=view.problem or 'none',
            remedy='Set compute_driver = %s there, and restart nova-compute.'
            % driver_alias.DRIVER)
    else:
        yield from _of_report(report)
    if not is_marked:
        yield VerifyLine('aggregate', compute='none for priority instances',
                         remedy='Put the host into a host aggregate with '
                         'priority_mix=true.')
    if plan:
        yield from _against(plan, view, report)
    for each in found:
        yield VerifyLine(
            ' '.join(filter(None, (each.kind, each.consumer))), each.needed,
            each.placement, each.compute, each.libvirt,
            UNREAD if each.kind == finding.UNREAD else DIFFERS, each.remedy)
    yield VerifyLine('in use', '', summary.placement, summary.compute,
                     summary.libvirt, OK)


def _of_report(report):
    """Yield what nova-compute itself has to say against the host."""
    if report.problem:
        yield VerifyLine('nova-compute', compute=report.problem,
                         remedy='Look at the log of nova-compute there.')
    if report.partition_problem:
        yield VerifyLine('partitions', compute=report.partition_problem,
                         remedy='Run "nova-prio-host prepare" there as root.')
    if report.blocked:
        yield VerifyLine(
            'kept CPUs', compute='CPUs ' + report.blocked_cpus,
            libvirt=report.blocked_by,
            remedy='Guests that were started with other CPU sets float there: '
            'reboot them hard, or migrate them, and wait for the next update '
            'of nova-compute. Nobody is pinned there before.')


def _against(plan, view, report):
    """Yield what was planned, and what there is of it."""
    for name, there in (get_options(report).items() if report else ()):
        wanted = plan.then.get((plan_format.OPTION, name), '')
        yield _line(are_equal(name, wanted, there), _CONFIGURE, name, wanted,
                    compute=there)
    # As planned, with what is in use by now.
    inventories = calculated.plan_inventories(view, plan_format.get_cpus(plan))
    for (part, name), wanted in plan.then.items():
        if part == plan_format.INVENTORY:
            wanted = inventories.get(name, {})
            there = view.inventories.get(name, {})
            yield _line(wanted == there, _WAIT, 'inventory ' + name, wanted,
                        there)
        elif part == plan_format.TRAITS:
            there = ' '.join(prio_traits.select_ours(view.traits))
            is_closed = prio_traits.TRAIT_DISABLED in view.traits
            yield _line(
                wanted == there, 'Run "nova-prio host enable %s".' % view.name
                if is_closed else _WAIT, 'traits', wanted, there)
        elif part == plan_format.ROOM and report and name in capacity.Rows._fields:
            there = getattr(report.sellable, name)
            yield _line(wanted['sellable'] == there, _CONFIGURE,
                        'sellable ' + name, str(wanted['sellable']),
                        compute=str(there))


def _line(is_so, remedy, *values, **more):
    if is_so:
        return VerifyLine(*values, **more, state=OK)
    return VerifyLine(*values, **more, remedy=remedy)


def get_options(report):
    """Return dict, option -> its value, a str, as a compute reports it."""
    return {'cpu_dedicated_set': report.cpu_dedicated_set,
            'cpu_shared_set': report.cpu_shared_set,
            'cpu_allocation_ratio': report.cpu_allocation_ratio,
            'cpu_priority_mix_enable': str(report.mix).lower()}


def are_equal(name, wanted, there):
    """Return whether two values of an option, as text, mean the same."""
    if name == 'cpu_allocation_ratio':
        return capacity.parse_ratio(wanted) == capacity.parse_ratio(there)
    if name.endswith('_set'):
        return host_report.parse_cpu_set(
            wanted) == host_report.parse_cpu_set(there)
    return wanted == there
