# SPDX-License-Identifier: Apache-2.0

"""Records the hosts after each step, for the page of a scenario.

The page shows the rows of each host: the capacity of a host for servers of one
class, 'high', 'low' or 'ordinary'.
"""

import dataclasses
import types

from nova_prio.admin.page import content
from nova_prio.model import aggregate_metadata
from nova_prio.model import cpu_capacity
from nova_prio_scenario import result

NOTES = ['The rows and the servers are those after each step.']


class Recorder:
    """The steps of a page.

    :param document: :class:`nova_prio_scenario.document.Document`
    """

    def __init__(self, document):
        self._document = document
        self._steps = []

    def record(self, stage, servers, host_faults, title, number=0,
               outcome=''):
        """Add a step, after which the cloud is as it is now.

        :param stage: :class:`nova_prio_scenario.stage.Stage`
        :param servers: iterable of result.Server; they are not changed
        :param host_faults: dict, as in result.Result
        :param title: the step as text
        :param number: number of the step, 0 for the state before the first
        :param outcome: how the step ended, as text
        """
        # A server keeps its CPUs in the result until the last step.
        servers = [dataclasses.replace(server, cpus=None, partition=None)
                   for server in servers]
        guests = {}  # name of a host or None to list of Guest
        for server in servers:
            stage.update_server(server)
            if server.status != 'DELETED':
                guests.setdefault(server.host, []).append(make_guest(server))
        hosts = []
        for host in self._document.hosts:
            # The state of a host may override values of the file.
            shown = host | stage.get_host(host)
            hosts.append(make_host(shown, guests.get(host['name'], []),
                                   stage.get_pinned_cpus(host)))
        faults_of_step = {}  # name of a server or host to its fault
        for name, faults in result.list_faults(servers, host_faults):
            if number in faults:
                faults_of_step[name] = faults[number]
        self._steps.append(content.PageStep(
            hosts=hosts, title=title, outcome=outcome,
            refusals=group_refusals(faults_of_step),
            unplaced=guests.get(None, [])))

    def make_page(self, played):
        """Return the ``content.Page``.

        :param played: result.Result of all steps
        """
        return content.Page(
            title=self._document.description or 'Scenario', steps=self._steps,
            data=played.to_dict(), notes=NOTES, warnings=played.surprises)


def make_guest(server):
    """Return the ``content.GuestOnPage`` of a result.Server."""
    return content.GuestOnPage(
        name=server.name, uuid=server.id or '', row=server.row,
        state=server.status, pinned=frozenset(server.pinned_on),
        floating=server.floats_on, is_stopped=server.status == 'SHUTOFF')


def make_host(host, guests, pinned):
    """Return the ``content.HostSection`` of a host.

    :param host: dict, the host in the scenario file and in the result
    :param guests: list of ``content.GuestOnPage``
    :param pinned: frozenset, the CPUs that Nova counts as pinned
    """
    problems = []
    if host['state'] == 'down':
        problems.append('The host is down.')
    if host['status'] == 'disabled':
        problems.append(
            'nova-compute is disabled: the scheduler omits this host.')
    is_open = not problems
    metadata = host['aggregate'] or {}
    allows_priority = aggregate_metadata.allows_priority(
        types.SimpleNamespace(metadata=metadata))
    rows = make_rows(host['classes'])
    if rows and not allows_priority:
        problems.append(content.NO_PRIORITY_AGGREGATE)
    aggregates = []
    if metadata:
        aggregates.append(result.name_aggregate(metadata))
    pinned_by_no_guest = set(pinned)
    for guest in guests:
        pinned_by_no_guest -= guest.pinned
    return content.HostSection(
        name=host['name'],
        guests=guests,
        rows=rows,
        aggregates=aggregates,
        facts=_list_facts(host),
        dedicated=_parse_set(host['dedicated']),
        shared=_parse_set(host['shared']),
        held=frozenset(pinned_by_no_guest),
        problems=problems,
        is_open=is_open,
        takes_priority=bool(rows) and allows_priority)


def _list_facts(host):
    """Return the names and values that the page shows, a list of pairs.

    :param host: dict, the host in the scenario file and in the result
    """
    mix = 'on' if host['mix'] else 'off'
    return [('CPUs', str(host['cpus'])),
            ('Dedicated CPUs', host['dedicated'] or 'none'),
            ('Shared CPUs', host['shared'] or 'none'),
            ('CPU allocation ratio', str(host['ratio'] or "Nova's")),
            ('Mix', mix),
            ('Driver', host['driver'])]


def _parse_set(text):
    """Return the CPUs of a CPU set, a frozenset.

    :param text: str; None for no CPUs
    """
    if not text:
        return frozenset()
    return result.parse_cpus(text)


def make_rows(classes):
    """Return the vCPUs of each row: its name -> ``provider_rows.Row``.

    The result is empty without ``classes``.

    :param classes: dict, see ``stage.Stage.get_host``; None for a host with
        another compute driver
    """
    if classes is None:
        return {}
    sellable = _read_rows(classes, 'sellable')
    used = _read_rows(classes, 'used')
    return content.make_rows(
        used, sellable, cpu_capacity.calculate_left(sellable, used))


def _read_rows(classes, key):
    """Return the cpu_capacity.Rows of one number of each row.

    :param classes: dict, see ``stage.Stage.get_host``
    :param key: 'sellable' or 'used'
    """
    return cpu_capacity.Rows(
        high=classes['high'][key],
        low=classes['low'][key],
        ordinary=classes['ordinary'][key])


def group_refusals(faults):
    """Return a ``content.RefusedServers`` for each different fault, a list.

    :param faults: dict, name of a server or host to one of its ``faults``
    """
    servers = {}
    for name, fault in faults.items():
        servers.setdefault(fault, []).append(name)
    refusals = []
    for fault, names in servers.items():
        line, *reasons = fault.split('\n')
        heading = ''
        if reasons and reasons[0].startswith(result.NO_CANDIDATE):
            heading = reasons.pop(0)
        # The line begins with the step, such as "step 3 (create): ".
        message = line.partition('): ')[2]
        refusals.append(content.RefusedServers(
            servers=names, message=message, reasons=reasons, heading=heading))
    return refusals
