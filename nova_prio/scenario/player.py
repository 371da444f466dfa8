# SPDX-License-Identifier: Apache-2.0

"""Plays a scenario through the API of a stock Nova."""

from nova.tests.functional.api import client
import tenacity

from nova_prio.scenario import refusals
from nova_prio.scenario import result
from nova_prio.scenario import stage
from nova_prio.scenario import verbs

#: Seconds until a server is as a step leaves it, and between two looks at it.
PATIENCE_SECONDS = 60
INTERVAL_SECONDS = 0.03
#: States of a migration that is over, or waits to be confirmed.
SETTLED = ('finished', 'confirmed', 'reverted', 'completed', 'done', 'failed',
           'error', 'cancelled')


class Player:
    """One scenario on one cloud.

    :param cloud: :class:`nova_prio.scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio.scenario.document.Document`
    :param progress: callable, called with one line for each thing done
    """

    def __init__(self, cloud, document, progress):
        self._cloud = cloud
        self._document = document
        self._progress = progress
        cloud.let_guests_migrate()
        self._watch = cloud.useFixture(refusals.SchedulerWatch())
        self._servers = {}

    def play(self):
        """Play it.

        :returns: :class:`nova_prio.scenario.result.Result`
        :raises nova_prio.scenario.document.BadScenario: if Nova refuses a
            host, flavor or server group of the file
        :raises nova_prio.scenario.result.PlayFailed: if it cannot go on
        """
        self._stage = stage.Stage(self._cloud, self._document, self._progress)
        surprises = []
        steps = self._document.steps
        for number, step in enumerate(steps, 1):
            self._step = 'step %d (%s)' % (number, step.deed)
            self._number = number
            outcomes = self._outcomes(step.name, step.args)
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
                    '%r did not come true: %s is %s' % (
                        step.expect, step.title, summary)))
        self._update_hosts()
        return result.Result(
            [self._stage.seen(server) for server in self._servers.values()],
            [self._stage.host(host) for host in self._document.hosts],
            surprises)

    def _outcomes(self, name, args):
        """Take a step; return its outcomes, one for each server."""
        verb = verbs.VERBS[name]
        if name == 'create':
            names = verbs.created(args)
            if args['multi']:
                return self._create(names, args)
            return [outcome for name in names
                    for outcome in self._create([name], args)]
        if name == 'host-down':
            self._cloud.host_down(args['host'])
            works = True
        elif name == 'host-up':
            self._cloud.host_up(args['host'])
            works = True
        else:
            server = self._servers[args['server']]
            works = server.id is not None and (
                self._delete(server) if name == 'delete' else
                self._change(server, verb, args))
        return [verb.outcomes[0] if works else 'refused']

    def _update_hosts(self):
        """Run the periodic task of each host; no step waits for it.

        A host that a server has left offers its CPUs again only then.
        """
        for host in self._document.hosts:
            if host['name'] not in self._cloud.hosts_down:
                self._cloud.update_host(host['name'])

    def _create(self, names, args):
        """Create servers with one request.

        :param names: list of the names that they get
        :param args: dict, the keys of the verb ``create``
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
                raise result.PlayFailed('%s cannot be created: %s' % (
                    args['name'], stage.answer(error))) from error
            for server in servers:
                server.priority = self._stage.asked_priority(args)
                self._refuse(server, stage.answer(error))
            return ['refused'] * len(names)
        ids = {names[0]: created['id']} if len(names) == 1 else {
            item['name']: item['id'] for item in self._cloud.api.api_get(
                '/servers/detail?reservation_id=%s'
                % created['reservation_id']).body['servers']}
        for server in servers:
            server.id = ids[server.name]
        return [self._settled(server) for server in servers]

    def _refuse(self, server, text, *reasons):
        """Record why Nova refused the step that is played; return False."""
        server.faults.append(result.Fault(self._number, '\n'.join([
            '%s: %s' % (self._step, text), *reasons])))
        return False

    def _settled(self, server):
        """Wait until a server is active or refused; return which."""
        shown = self._until(
            server, 'neither active nor refused', lambda shown:
            shown['status'] == 'ACTIVE' or
            (shown['status'] == 'ERROR' and 'fault' in shown))
        if shown['status'] == 'ACTIVE':
            return 'active'
        self._refuse(
            server, shown['fault']['message'].strip(), *self._reasons())
        return 'refused'

    def _until(self, server, goal, reached):
        """Look at a server until it is as it should be; return it.

        :param goal: what the server is if that does not come true in time
        :param reached: function: (the server as the API shows it, or None
            if it is gone) -> bool
        """
        def look():
            try:
                return self._cloud.api.get_server(server.id)
            except client.OpenStackApiNotFoundException:
                return None

        try:
            return tenacity.Retrying(
                retry=tenacity.retry_if_result(
                    lambda shown: not reached(shown)),
                wait=tenacity.wait_fixed(INTERVAL_SECONDS),
                stop=tenacity.stop_after_delay(PATIENCE_SECONDS))(look)
        except tenacity.RetryError as error:
            raise result.PlayFailed('%s is %s after %d seconds' % (
                server.name, goal, PATIENCE_SECONDS)) from error

    def _reasons(self, own_host=None):
        """Return why the request was refused, one sentence for each host."""
        query = self._watch.query
        if query is None:
            return []
        names = {
            aggregate['uuid']: aggregate['name'] for aggregate in
            self._cloud.api.api_get('/os-aggregates').body['aggregates']}
        sentences = [] if self._watch.has_candidates else [
            'Placement has no candidate for %s:' % refusals.Request(query)]
        refused = self._watch.refusals()
        for host in self._cloud.hosts_down & refused.keys():
            refused[host] = 'the host is down'
        return sentences + refusals.explain(
            query, self._stage.providers(), names, refused, own_host)

    def _change(self, server, verb, args):
        """Send the action of a verb to a server; return whether it worked.

        If not, the server keeps the reasons.
        """
        action = verb.action(args, self._stage.flavors)
        down = self._cloud.hosts_down & self._hosts_of(server)
        if down and 'evacuate' not in action:
            # Nova would wait for it, and this cloud for Nova.
            return self._refuse(server, 'Its host %s is down.' % min(down))
        self._watch.clear()
        try:
            self._cloud.api.post_server_action(server.id, action)
        except client.OpenStackApiException as error:
            text = stage.answer(error)
            if error.response.status_code < 500:
                return self._refuse(server, text)
            # This cloud waits for the scheduler, and Nova does not.
            if 'NoValidHost' not in text:
                raise result.PlayFailed('%s cannot be changed: %s' % (
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
        """Return the hosts of a server: two if a move is to be confirmed."""
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
    """Return the newest migration of a server, a dict; empty for none.

    :param api: client of an administrator
    """
    found = api.api_get(
        '/os-migrations?instance_uuid=%s' % server_id).body['migrations']
    return max(found, key=lambda migration: migration['id'], default={})


def newest_is_settled(api, server_id):
    """Return whether no migration of a server is under way."""
    return newest_migration(api, server_id).get('status', 'done') in SETTLED
