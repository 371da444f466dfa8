# SPDX-License-Identifier: Apache-2.0

"""Takes the steps of a scenario through the API of a stock Nova."""

from nova.tests.functional.api import client
import tenacity

from nova_prio.scenario import refusals
from nova_prio.scenario import result
from nova_prio.scenario import stage
from nova_prio.scenario import verbs

#: Seconds to wait for the end of a step, and between two requests.
PATIENCE_SECONDS = 60
INTERVAL_SECONDS = 0.03
#: States of a migration that has ended, or waits for its confirmation.
SETTLED = ('finished', 'confirmed', 'reverted', 'completed', 'done', 'failed',
           'error', 'cancelled')


class Player:
    """Plays one scenario on one cloud.

    :param cloud: :class:`nova_prio.scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio.scenario.document.Document`
    :param progress: callable, called with each line of progress
    :raises nova_prio.scenario.document.BadScenario: if Nova refuses a host,
        flavor or server group of the file
    """

    def __init__(self, cloud, document, progress):
        self._cloud = cloud
        self._document = document
        self._progress = progress
        self._servers = {}
        cloud.let_guests_migrate()
        self._watch = cloud.useFixture(refusals.SchedulerWatch())
        self._stage = stage.Stage(cloud, document, progress)

    def play(self):
        """Take all steps.

        :returns: :class:`nova_prio.scenario.result.Result`
        :raises nova_prio.scenario.result.PlayFailed: if Nova does not
            complete a step
        """
        surprises = []
        steps = self._document.steps
        for number, step in enumerate(steps, 1):
            self._number, self._step = number, step
            outcomes = self._take(step)
            if verbs.VERBS[step.name].vacates:
                self._update_hosts()
            summary = outcomes[0] if len(outcomes) == 1 else ', '.join(
                '%d %s' % (outcomes.count(outcome), outcome)
                for outcome in dict.fromkeys(outcomes))
            self._progress('[%d/%d] %s: %s' % (
                number, len(steps), step.title, summary))
            if step.expect and set(outcomes) != {step.expect}:
                surprises.append(self._document.problem(
                    ('steps', number - 1, 'expect'),
                    '%r was expected, but %s is %s' % (
                        step.expect, step.title, summary)))
        self._update_hosts()
        return result.Result(
            [self._stage.update_server(server)
             for server in self._servers.values()],
            [self._stage.get_host(host) for host in self._document.hosts],
            surprises)

    def _take(self, step):
        """Take a step; return its outcomes, one for each server."""
        args = step.args
        if step.name == 'create':
            names = verbs.list_servers(args)
            requests = [names] if args['multi'] else [[name] for name in names]
            return [outcome for names in requests
                    for outcome in self._create(names, args)]
        verb = verbs.VERBS[step.name]
        if step.name == 'host-down':
            self._cloud.host_down(args['host'])
            works = True
        elif step.name == 'host-up':
            self._cloud.host_up(args['host'])
            works = True
        else:
            server = self._servers[args['server']]
            works = server.id is not None and (
                self._delete(server) if step.name == 'delete' else
                self._change(server, verb, args))
        return [verb.outcomes[0] if works else 'refused']

    def _update_hosts(self):
        """Run the periodic task of each host, which otherwise takes a minute.

        Only then does a host offer the CPUs of a server that left it.
        """
        for host in self._document.hosts:
            if host['name'] not in self._cloud.hosts_down:
                self._cloud.update_host(host['name'])

    def _create(self, names, args):
        """Create servers with one request.

        :returns: list of 'active' or 'refused', one for each name
        """
        self._watch.clear()
        servers = [result.Server(name) for name in names]
        self._servers.update(zip(names, servers))
        try:
            created = self._cloud.api.post_server(
                self._stage.server_body(names, args))
        except client.OpenStackApiException as error:
            if error.response.status_code >= 500:
                raise result.PlayFailed('Nova cannot create %s: %s' % (
                    args['name'], stage.answer(error))) from error
            for server in servers:
                server.priority = self._stage.requested_priority(args)
                self._refuse(server, stage.answer(error))
            return ['refused'] * len(names)
        ids = {names[0]: created['id']} if len(names) == 1 else {
            item['name']: item['id'] for item in self._cloud.api.api_get(
                '/servers/detail?reservation_id=%s'
                % created['reservation_id']).body['servers']}
        for server in servers:
            server.id = ids[server.name]
        return [self._await_build(server) for server in servers]

    def _refuse(self, server, text, *reasons):
        """Record why Nova refused the current step; return False."""
        server.faults[self._number] = '\n'.join([
            'step %d (%s): %s' % (self._number, self._step.deed, text),
            *reasons])
        return False

    def _await_build(self, server):
        """Wait until a server is active or in error; return the outcome."""
        shown = self._until(
            server, 'neither active nor refused', lambda shown:
            shown['status'] == 'ACTIVE' or
            (shown['status'] == 'ERROR' and 'fault' in shown))
        if shown['status'] == 'ACTIVE':
            return 'active'
        self._refuse(
            server, shown['fault']['message'].strip(), *self._reasons())
        return 'refused'

    def _until(self, server, problem, is_reached):
        """Wait for a state of a server; return the server.

        :param problem: the adjective of the error after the timeout
        :param is_reached: function, server as the API shows it (None if it
            is deleted) to bool
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

    def _reasons(self, own_host=None):
        """Yield why no host takes the request, one sentence for each host."""
        request = self._watch.request
        if request is None:
            return
        if not self._watch.has_candidates:
            yield 'Placement has no candidate for %s:' % (
                refusals.describe(request))
        aggregates = self._cloud.api.api_get(
            '/os-aggregates').body['aggregates']
        yield from refusals.explain(
            request, self._stage.list_providers(),
            {aggregate['uuid']: aggregate['name'] for aggregate in aggregates},
            {host: ('the host is down' if host in self._cloud.hosts_down
                    else reason)
             for host, reason in self._watch.refusals.items()}, own_host)

    def _change(self, server, verb, args):
        """Send the action of a verb to a server; return whether it worked."""
        action = verb.action(args, self._stage.flavors)
        down = self._cloud.hosts_down & self._hosts_of(server)
        if down and 'evacuate' not in action:
            # Nova would wait for the host, and this cloud for Nova.
            return self._refuse(
                server, 'Host %s of the server is down.' % min(down))
        self._watch.clear()
        try:
            self._cloud.api.post_server_action(server.id, action)
        except client.OpenStackApiException as error:
            text = stage.answer(error)
            if error.response.status_code < 500:
                return self._refuse(server, text)
            # This cloud waits for the scheduler; a real nova-api does not.
            if 'NoValidHost' not in text:
                raise result.PlayFailed('Nova cannot change %s: %s' % (
                    server.name, text)) from error
        shown = self._until(
            server, 'not done with its task', lambda shown:
            shown['OS-EXT-STS:task_state'] is None and
            newest_is_settled(self._cloud.api, server.id))
        newest = newest_migration(self._cloud.api, server.id).get('status')
        if (verb.status not in (None, shown['status']) or
                verb.migration not in (None, newest)):
            return self._refuse(server, 'No valid host was found.',
                                *self._reasons(shown['OS-EXT-SRV-ATTR:host']))
        end = ('revert' if args.get('revert') else
               'confirm' if args.get('confirm') else None)
        return not end or self._change(
            server, verbs.VERBS[end], {'server': server.name})

    def _hosts_of(self, server):
        """Return the hosts of a server: two if a move awaits confirmation."""
        api = self._cloud.api
        hosts = {api.get_server(server.id)['OS-EXT-SRV-ATTR:host']}
        migration = newest_migration(api, server.id)
        if migration.get('status') == 'finished':
            hosts |= {migration['source_compute'], migration['dest_compute']}
        return hosts

    def _delete(self, server):
        """Delete a server; return whether it is gone."""
        try:
            self._cloud.api.delete_server(server.id)
        except client.OpenStackApiException as error:
            return self._refuse(server, stage.answer(error))
        self._until(server, 'not deleted', lambda shown: shown is None)
        server.status = 'DELETED'
        return True


def newest_migration(api, server_id):
    """Return the newest migration of a server, a dict; empty if none.

    :param api: client of an administrator
    """
    migrations = api.api_get(
        '/os-migrations?instance_uuid=%s' % server_id).body['migrations']
    return max(migrations, key=lambda migration: migration['id'], default={})


def newest_is_settled(api, server_id):
    """Return whether no migration of a server is in progress."""
    return newest_migration(api, server_id).get('status', 'done') in SETTLED
