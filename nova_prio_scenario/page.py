# SPDX-License-Identifier: Apache-2.0

"""Records the hosts after each step, for the page of a scenario."""

import dataclasses
import types

from nova_prio.admin.page import content
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
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
        for server in servers:
            stage.update_server(server)
        guests = {}  # name of a host or None to list of Guest
        for server in servers:
            if server.status != 'DELETED':
                guests.setdefault(server.host, []).append(make_guest(server))
        self._steps.append(content.Step(
            hosts=[make_host(
                # The state of a host may override values of the file.
                {**host, **stage.get_host(host)},
                guests.get(host['name'], []), stage.get_pinned_cpus(host))
                for host in self._document.hosts],
            title=title, outcome=outcome,
            refusals=group_refusals({
                name: faults[number] for name, faults in
                result.list_faults(servers, host_faults) if number in faults}),
            unplaced=guests.get(None, [])))

    def make_page(self, played):
        """Return the ``content.Page``.

        :param played: result.Result of all steps
        """
        return content.Page(
            title=self._document.description or 'Scenario', steps=self._steps,
            data=played.to_dict(), notes=NOTES, warnings=played.surprises)


def make_guest(server):
    """Return the ``content.Guest`` of a result.Server."""
    return content.Guest(
        name=server.name, uuid=server.id or '', row=server.row,
        state=server.status, pinned=frozenset(server.pinned_on),
        floating=server.floats_on, is_stopped=server.status == 'SHUTOFF')


def make_host(host, guests, pinned):
    """Return the ``content.HostSection`` of a host.

    :param host: dict, the host in the scenario file and in the result
    :param guests: list of ``content.Guest``
    :param pinned: frozenset, the CPUs that Nova counts as pinned
    """
    problems = [text for key, value, text in (
        ('state', 'down', 'The host is down.'),
        ('status', 'disabled', 'nova-compute is disabled: the scheduler omits '
         'this host.')) if host[key] == value]
    is_open = not problems
    aggregate = types.SimpleNamespace(metadata=host['aggregate'] or {})
    is_marked = aggregate_metadata.allows_priority(aggregate)
    rows = make_rows(host['classes'])
    if rows and not is_marked:
        problems.append(content.NO_PRIORITY_AGGREGATE)
    sets = {key: result.parse_cpus(host[key]) if host[key] else frozenset()
            for key in ('dedicated', 'shared')}
    return content.HostSection(
        name=host['name'], guests=guests, rows=rows,
        aggregates=[result.name_aggregate(host['aggregate'])]
        if host['aggregate'] else [],
        facts=[('CPUs', str(host['cpus'])),
               ('Dedicated CPUs', host['dedicated'] or 'none'),
               ('Shared CPUs', host['shared'] or 'none'),
               ('CPU allocation ratio', str(host['ratio'] or "Nova's")),
               ('Mix', 'on' if host['mix'] else 'off'),
               ('Driver', host['driver'])],
        held=pinned.difference(*(guest.pinned for guest in guests)),
        problems=problems, is_open=is_open,
        takes_priority=bool(rows) and is_marked, **sets)


def make_rows(classes):
    """Return name of a row -> ``content.Row``; empty without ``classes``.

    :param classes: dict, see ``stage.Stage.get_host``, or None
    """
    if classes is None:
        return {}
    sellable, used = (
        capacity.Rows(*(classes[row][key] for row in capacity.Rows._fields))
        for key in ('sellable', 'used'))
    return content.make_rows(
        used, sellable, capacity.calculate_left(sellable, used))


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
        heading = reasons.pop(0) if reasons and reasons[0].startswith(
            result.NO_CANDIDATE) else ''
        # The line begins with the step, such as "step 3 (create): ".
        refusals.append(content.RefusedServers(
            names, line.partition('): ')[2], reasons, heading))
    return refusals
