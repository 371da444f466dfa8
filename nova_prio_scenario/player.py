# SPDX-License-Identifier: Apache-2.0

"""Takes the steps of a scenario through the API of a stock Nova.

A step has a verb, such as ``resize``, and ``args``, a dict with the keys of
the verb (:mod:`nova_prio_scenario.verbs`). An outcome is how a step ended for
one server or host, such as 'resized' or 'refused'.
"""

from nova import exception
from nova.tests.functional.api import client

from nova_prio.cmd import colors
from nova_prio_scenario import migrations
from nova_prio_scenario import refusals
from nova_prio_scenario import result
from nova_prio_scenario import result_text
from nova_prio_scenario import schema
from nova_prio_scenario import stage
from nova_prio_scenario import verbs
from nova_prio_scenario import waiting


class Player:
    """Plays one scenario on one cloud.

    :param cloud: :class:`nova_prio_scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio_scenario.document.Document`
    :param progress: callable, called with each line of progress
    :param recorder: :class:`nova_prio_scenario.page.Recorder`; None without a
        page
    :param paint: function that returns a text of a line in a color
    :raises nova_prio_scenario.document.BadScenario: as ``stage.Stage``
    """

    def __init__(self, cloud, document, progress, recorder=None,
                 paint=colors.leave):
        """Set up the cloud; the class describes the parameters."""
        self._cloud = cloud
        self._document = document
        self._progress = progress
        self._recorder = recorder
        self._paint = paint
        self._servers = {}  # name to result.Server
        self._host_faults = {}  # name to faults, as those of a Server
        cloud.let_guests_migrate()
        self._watch = cloud.useFixture(refusals.SchedulerWatch())
        self._stage = stage.Stage(cloud, document, progress=progress)

    def play(self):
        """Take all steps.

        :returns: :class:`nova_prio_scenario.result.Result`
        :raises nova_prio_scenario.result.PlayFailed: if Nova does not
            complete a step
        """
        surprises = []
        steps = self._document.steps
        self._record('before the first step')
        for number, step in enumerate(steps, 1):
            self._number, self._step = number, step
            outcomes = self._take(step)
            # A host offers the CPUs of a server that left it only after its
            # periodic task, which otherwise takes a minute.
            for host in self._document.hosts:
                if host['name'] not in self._cloud.hosts_down:
                    self._cloud.update_host(host['name'])
            summary = result_text.summarize(outcomes)
            self._progress('[%d/%d] %s: %s' % (
                number, len(steps), step.title,
                result_text.summarize(outcomes, self._paint)))
            if step.expect and set(outcomes) != {step.expect}:
                path = ('steps', number - 1, 'expect')
                surprises.append(self._document.describe(
                    path, '%r was expected, but %s is %s' % (
                        step.expect, step.title, summary)))
            self._record(step.title, number=number, outcome=summary)
        servers = list(self._servers.values())
        for server in servers:
            self._stage.update_server(server)
        hosts = [self._stage.get_host(host) for host in self._document.hosts]
        return result.Result(
            servers=servers, hosts=hosts, surprises=surprises,
            host_faults=self._host_faults)

    def _record(self, title, number=0, outcome=''):
        """Record the hosts after a step, if a recorder needs it.

        The parameters are those of ``page.Recorder.record``.
        """
        if self._recorder:
            self._recorder.record(
                self._stage, self._servers.values(), self._host_faults, title,
                number=number, outcome=outcome)

    def _take(self, step):
        """Take a step; return its outcomes, one for each server or host."""
        args = step.args
        if step.name == 'create':
            return self._create_all(args)
        if 'server' not in args:
            works = self._operate(step.name, args['host'])
        else:
            server = self._servers[args['server']]
            if server.id is None:
                # nova-api refused to create the server.
                works = False
            elif step.name == 'delete':
                works = self._delete(server)
            else:
                works = self._change(server, step.name, args)
        if not works:
            return ['refused']
        return [verbs.VERBS[step.name].outcomes[0]]

    def _create_all(self, args):
        """Create servers with one request or more; return their outcomes.

        :param args: dict, the keys of the verb ``create``
        """
        names = verbs.list_servers(args)
        if args['multi']:
            return self._create(names, args)
        outcomes = []
        for name in names:
            outcomes += self._create([name], args)
        return outcomes

    def _operate(self, name, host):
        """Take a step about a host; return whether it worked.

        :param name: name of the verb
        :param host: name of the host
        """
        if name == 'host-drain':
            return self._drain(host)
        if name == 'host-change':
            return self._change_host(host)
        # Such as host_down of nova_prio_scenario.host_operations.
        getattr(self._cloud, name.replace('-', '_'))(host)
        return True

    def _drain(self, host):
        """Disable a host and move its servers; return whether all moved.

        The scheduler chooses the destinations.
        """
        self._cloud.host_disable(host)
        api = self._cloud.api
        have_all_moved = True
        for server in self._servers.values():
            if server.id is None or server.status == 'DELETED':
                continue
            if host in migrations.get_hosts(api, server.id):
                is_running = api.get_server(server.id)['status'] == 'ACTIVE'
                verb = 'live-migrate' if is_running else 'migrate'
                args = schema.with_defaults(verbs.VERBS[verb].properties, {})
                if not self._change(server, verb, args):
                    have_all_moved = False
        return have_all_moved

    def _change_host(self, host):
        """Change the options of a host; return whether it starts with them."""
        changes = verbs.list_changes(self._step.args)
        try:
            with refusals.convert_refused_start(
                    exception.InvalidConfiguration):
                self._cloud.host_change(host, **changes)
        except exception.NovaException as error:
            faults = self._host_faults.setdefault(host, {})
            faults[self._number] = self._format_fault(str(error))
            return False
        return True

    def _create(self, names, args):
        """Create servers with one request.

        :param names: list of the names of the servers
        :param args: dict, the keys of the verb ``create``
        :returns: list of 'active' or 'refused', one for each name
        """
        self._watch.clear()
        servers = [result.Server(name) for name in names]
        self._servers.update(zip(names, servers))
        try:
            created = self._cloud.api.post_server(
                self._stage.build_server_body(names, args))
        except client.OpenStackApiException as error:
            if error.response.status_code >= 500:
                raise result.PlayFailed('Nova cannot create %s: %s' % (
                    args['name'], stage.get_message(error))) from error
            for server in servers:
                server.priority = self._stage.get_requested_priority(args)
                self._refuse(server, stage.get_message(error))
            return ['refused'] * len(names)
        if len(names) == 1:
            ids = {names[0]: created['id']}
        else:
            found = self._cloud.api.api_get(
                '/servers/detail?reservation_id=%s'
                % created['reservation_id']).body['servers']
            ids = {item['name']: item['id'] for item in found}
        for server in servers:
            server.id = ids[server.name]
        return [self._await_build(server) for server in servers]

    def _refuse(self, server, text, reasons=()):
        """Record why Nova refused the current step; return False.

        :param text: the message of Nova
        :param reasons: iterable of sentences
        """
        lines = [self._format_fault(text)]
        lines.extend(reasons)
        server.faults[self._number] = '\n'.join(lines)
        return False

    def _format_fault(self, text):
        """Return a sentence about the current step."""
        return 'step %d (%s): %s' % (
            self._number, self._step.short_title, text)

    def _await_build(self, server):
        """Wait until a server is active or in error; return the outcome.

        :param server: result.Server
        """
        shown = waiting.wait(
            self._cloud.api, server, waiting.is_built,
            problem='neither active nor refused')
        if shown['status'] == 'ACTIVE':
            return 'active'
        self._refuse(
            server, shown['fault']['message'].strip(), self._find_reasons())
        return 'refused'

    def _find_reasons(self, own_host=None):
        """Return why no host takes the request, as refusals.find_reasons.

        :param own_host: name of the host that a move leaves; None for a create
        """
        return refusals.find_reasons(
            self._watch, self._cloud, own_host=own_host)

    def _change(self, server, name, args):
        """Send the action of a verb to a server; return whether it worked.

        :param name: name of the verb
        :param args: dict, the keys of the verb
        """
        api, verb = self._cloud.api, verbs.VERBS[name]
        down = self._cloud.hosts_down & migrations.get_hosts(api, server.id)
        if down and name != 'evacuate':
            # Nova would wait for the host, and this cloud for Nova.
            return self._refuse(
                server, 'Host %s of the server is down.' % min(down))
        self._watch.clear()
        try:
            api.post_server_action(
                server.id,
                verbs.build_action(name, args, self._stage.flavors))
        except client.OpenStackApiException as error:
            text = stage.get_message(error)
            if error.response.status_code < 500:
                return self._refuse(server, text)
            # The API of this cloud waits for the scheduler, and answers 500 if
            # no host is found. A real nova-api does not wait.
            if 'NoValidHost' not in text:
                raise result.PlayFailed('Nova cannot change %s: %s' % (
                    server.name, text)) from error
        shown = waiting.wait(
            api, server, waiting.is_idle, problem='not done with its task')
        migration = migrations.get_newest(api, server.id).get('status')
        if (verb.status not in (None, shown['status']) or
                verb.migration not in (None, migration)):
            text = 'The server ends as %s.' % shown['status']
            if self._watch.request:
                text = 'No valid host was found.'
            own_host = shown['OS-EXT-SRV-ATTR:host']
            return self._refuse(server, text, self._find_reasons(own_host))
        if args.get('revert'):
            return self._change(server, 'revert', {})
        if args.get('confirm'):
            return self._change(server, 'confirm', {})
        return True

    def _delete(self, server):
        """Delete a server; return whether Nova accepted the request."""
        try:
            self._cloud.api.delete_server(server.id)
        except client.OpenStackApiException as error:
            return self._refuse(server, stage.get_message(error))
        waiting.wait(self._cloud.api, server, waiting.is_deleted,
                     problem='not deleted')
        server.status = 'DELETED'
        return True
