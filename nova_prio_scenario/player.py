# SPDX-License-Identifier: Apache-2.0

"""Takes the steps of a scenario through the API of a stock Nova."""

import collections

from nova import exception
from nova.scheduler.client import report
from nova.tests.functional.api import client
import tenacity

from nova_prio.placement import refused_providers
from nova_prio_scenario import migrations
from nova_prio_scenario import refusals
from nova_prio_scenario import result
from nova_prio_scenario import schema
from nova_prio_scenario import stage
from nova_prio_scenario import verbs

#: Seconds to wait for the end of a step, and between two requests.
PATIENCE_SECONDS = 60
INTERVAL_SECONDS = 0.03


class Player:
    """Plays one scenario on one cloud.

    :param cloud: :class:`nova_prio_scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio_scenario.document.Document`
    :param progress: callable, called with each line of progress
    :param recorder: :class:`nova_prio_scenario.page.Recorder`, or None
    :raises nova_prio_scenario.document.BadScenario: as ``stage.Stage``
    """

    def __init__(self, cloud, document, progress, recorder=None):
        self._cloud = cloud
        self._document = document
        self._progress = progress
        self._recorder = recorder
        self._servers = {}  # name to result.Server
        self._host_faults = {}  # name to faults, as those of a Server
        cloud.let_guests_migrate()
        self._watch = cloud.useFixture(refusals.SchedulerWatch())
        self._stage = stage.Stage(cloud, document, progress)

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
            summary = outcomes[0] if len(outcomes) == 1 else ', '.join(
                '%d %s' % (count, outcome) for outcome, count in
                collections.Counter(outcomes).items())
            self._progress('[%d/%d] %s: %s' % (
                number, len(steps), step.title, summary))
            if step.expect and set(outcomes) != {step.expect}:
                surprises.append(self._document.describe(
                    ('steps', number - 1, 'expect'),
                    '%r was expected, but %s is %s' % (
                        step.expect, step.title, summary)))
            self._record(step.title, number, summary)
        for server in self._servers.values():
            self._stage.update_server(server)
        return result.Result(
            list(self._servers.values()),
            [self._stage.get_host(host) for host in self._document.hosts],
            surprises, self._host_faults)

    def _record(self, *step):
        """Record the hosts after a step, if a recorder needs it."""
        if self._recorder:
            self._recorder.record(
                self._stage, self._servers.values(), self._host_faults,
                *step)

    def _take(self, step):
        """Take a step; return its outcomes, one for each server or host."""
        args = step.args
        if step.name == 'create':
            names = verbs.list_servers(args)
            requests = [names] if args['multi'] else [[name] for name in names]
            return [outcome for names in requests
                    for outcome in self._create(names, args)]
        if 'server' not in args:
            works = self._operate(step.name, args['host'])
        else:
            server = self._servers[args['server']]
            # A server without an id was refused by nova-api.
            works = server.id is not None and (
                self._delete(server) if step.name == 'delete' else
                self._change(server, step.name, args))
        return [verbs.VERBS[step.name].outcomes[0] if works else 'refused']

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
        api, works = self._cloud.api, True
        for server in self._servers.values():
            if server.id is None or server.status == 'DELETED':
                continue
            if host in migrations.get_hosts(api, server.id):
                is_running = api.get_server(server.id)['status'] == 'ACTIVE'
                verb = 'live-migrate' if is_running else 'migrate'
                works &= self._change(server, verb, schema.with_defaults(
                    verbs.VERBS[verb].properties, {}))
        return works

    def _change_host(self, host):
        """Change the options of a host; return whether it starts with them."""
        try:
            with refusals.convert_refused_start(
                    exception.InvalidConfiguration):
                self._cloud.host_change(
                    host, **verbs.list_changes(self._step.args))
        except exception.NovaException as error:
            self._host_faults.setdefault(host, {})[self._number] = (
                self._format_fault(str(error)))
            return False
        return True

    def _create(self, names, args):
        """Create servers with one request.

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
        ids = {names[0]: created['id']} if len(names) == 1 else {
            item['name']: item['id'] for item in self._cloud.api.api_get(
                '/servers/detail?reservation_id=%s'
                % created['reservation_id']).body['servers']}
        for server in servers:
            server.id = ids[server.name]
        return [self._await_build(server) for server in servers]

    def _refuse(self, server, text, reasons=()):
        """Record why Nova refused the current step; return False.

        :param text: the message of Nova
        :param reasons: iterable of sentences
        """
        server.faults[self._number] = '\n'.join([
            self._format_fault(text), *reasons])
        return False

    def _format_fault(self, text):
        """Return a sentence about the current step."""
        return 'step %d (%s): %s' % (
            self._number, self._step.short_title, text)

    def _await_build(self, server):
        """Wait until a server is active or in error; return the outcome."""
        # Nova adds the fault after it has set the status.
        shown = self._await(
            server, 'neither active nor refused', lambda shown:
            shown['status'] == 'ACTIVE' or
            (shown['status'] == 'ERROR' and 'fault' in shown))
        if shown['status'] == 'ACTIVE':
            return 'active'
        self._refuse(
            server, shown['fault']['message'].strip(), self._find_reasons())
        return 'refused'

    def _await(self, server, problem, is_reached):
        """Wait for a state of a server; return the server as the API shows it.

        :param problem: what the server is after the timeout, for the error
        :param is_reached: function, server as the API shows it (None if it
            is deleted) to bool
        :raises result.PlayFailed: after the timeout
        """
        def show():
            try:
                return self._cloud.api.get_server(server.id)
            except client.OpenStackApiNotFoundException:
                return None

        try:
            return tenacity.Retrying(
                retry=tenacity.retry_if_not_result(is_reached),
                wait=tenacity.wait_fixed(INTERVAL_SECONDS),
                stop=tenacity.stop_after_delay(PATIENCE_SECONDS))(show)
        except tenacity.RetryError as error:
            raise result.PlayFailed('%s is %s after %d seconds' % (
                server.name, problem, PATIENCE_SECONDS)) from error

    def _find_reasons(self, own_host=None):
        """Yield why no host takes the request, one sentence for each host.

        :param own_host: name of the host that the server must leave, or None
        """
        request = self._watch.request
        if request is None:
            return
        if not self._watch.has_candidates:
            yield result.NO_CANDIDATE + '%s:' % ', '.join(
                '%s %d' % resource for resource in sorted(
                    request.merged_resources().items()))
        unknown = refused_providers.find_unknown_names(
            report.report_client_singleton(), request)
        if unknown:
            yield unknown
            return
        aggregates = self._cloud.api.api_get(
            '/os-aggregates').body['aggregates']
        yield from refusals.explain(
            request, refusals.list_providers(self._cloud.placement),
            {aggregate['uuid']: aggregate['name'] for aggregate in aggregates},
            {host: ('the host is down' if host in self._cloud.hosts_down
                    else reason)
             for host, reason in self._watch.refusals.items()}, own_host)

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
                server.id, verb.action(args, self._stage.flavors))
        except client.OpenStackApiException as error:
            text = stage.get_message(error)
            if error.response.status_code < 500:
                return self._refuse(server, text)
            # The API of this cloud waits for the scheduler, and answers 500 if
            # no host is found. A real nova-api does not wait.
            if 'NoValidHost' not in text:
                raise result.PlayFailed('Nova cannot change %s: %s' % (
                    server.name, text)) from error
        shown = self._await(
            server, 'not done with its task', lambda shown:
            shown['OS-EXT-STS:task_state'] is None and
            migrations.is_settled(api, server.id))
        migration = migrations.get_newest(api, server.id).get('status')
        if (verb.status not in (None, shown['status']) or
                verb.migration not in (None, migration)):
            own_host = shown['OS-EXT-SRV-ATTR:host']
            return self._refuse(
                server, 'No valid host was found.' if self._watch.request else
                'The server ends as %s.' % shown['status'],
                self._find_reasons(own_host))
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
        self._await(server, 'not deleted', lambda shown: shown is None)
        server.status = 'DELETED'
        return True
