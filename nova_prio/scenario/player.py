# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Plays a scenario through the API of a stock Nova."""

from nova.tests.functional.api import client
import tenacity

from nova_prio.scenario import candidates
from nova_prio.scenario import document as scenario
from nova_prio.scenario import migrations
from nova_prio.scenario import result
from nova_prio.scenario import stage
from nova_prio.scenario import watch

#: Seconds until a server is as a step leaves it, and between two looks at it.
PATIENCE_SECONDS = 60
INTERVAL_SECONDS = 0.03


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
        self._watch = cloud.useFixture(watch.SchedulerWatch())
        self._stage = stage.Stage(cloud, document)
        self._servers = {}
        self._position = self._step = None

    def play(self):
        """Play it.

        :returns: :class:`nova_prio.scenario.result.Result`
        :raises nova_prio.scenario.source.BadScenario: where Nova refuses
            a host, flavor or server group of the file
        :raises nova_prio.scenario.result.PlayFailed: where it cannot go on
        """
        self._stage.set_up(self._progress)
        surprises = []
        steps = self._document.steps
        for position, step in enumerate(steps):
            self._position, self._step = position, step
            outcomes = step.verb.play(step.args, self)
            if step.verb.vacates:
                self._update_hosts()
            self._progress('[%d/%d] %s: %s' % (
                position + 1, len(steps), step.title, _summary(outcomes)))
            if step.expect and set(outcomes) != {step.expect}:
                surprises.append(self._document.problem(
                    ('steps', position, 'expect'),
                    '%r did not come true: %s is %s' % (
                        step.expect, step.title, _summary(outcomes))))
        self._update_hosts()
        return result.Result(
            [self._stage.seen(server)
             for server in self._servers.values()],
            [self._stage.host(host) for host in self._document.hosts],
            surprises)

    def _update_hosts(self):
        """Run what Nova does every minute; no step waits for that.

        A host that a server has left offers its CPUs again only then.
        """
        for host in self._document.hosts:
            if host['name'] not in self._cloud.hosts_down:
                self._cloud.update_host(host['name'])

    def host_down(self, name):
        """Let a host fail; for the verbs."""
        self._cloud.host_down(name)

    def host_up(self, name):
        """Let a host that is down come back; for the verbs."""
        self._cloud.host_up(name)

    def create(self, names, args):
        """Create servers with one request; for the verbs.

        :param names: list of the names that they get
        :param args: dict, the keys of the verb ``create``
        :returns: list of 'active' or 'refused', one for each name
        """
        self._watch.clear()
        try:
            created = self._cloud.api.post_server(self._body(names, args))
        except client.OpenStackApiException as error:
            if error.response.status_code >= 500:
                raise result.PlayFailed('%s cannot be created: %s' % (
                    args['name'], stage.answer(error))) from error
            for name in names:
                self._servers[name] = result.Server(
                    name, priority=self._stage.asked_priority(args))
                self._refuse(self._servers[name], stage.answer(error))
            return ['refused'] * len(names)
        return [self._settled(server)
                for server in self._created(names, created)]

    def _refuse(self, server, text, *reasons):
        """Let a server keep why the step that is played was refused."""
        server.faults.append(result.Fault(self._position + 1, '\n'.join([
            'step %d (%s): %s' % (self._position + 1, self._step.deed, text),
            *reasons])))

    def _body(self, names, args):
        server = {
            'name': args['name'] if len(names) > 1 else names[0],
            'flavorRef': self._stage.flavors[args['flavor']],
            'imageRef': self._stage.images[
                args['image'] or scenario.DEFAULT_IMAGE],
            'networks': 'none',
        }
        if args['host'] and args['force']:
            server['availability_zone'] = 'nova:%s' % args['host']
        elif args['host']:
            server['host'] = args['host']
        if len(names) > 1:
            server.update(min_count=len(names), max_count=len(names),
                          return_reservation_id=True)
        hints = {}
        if args['hint']:
            hints['priority'] = args['hint']
        if args['group']:
            hints['group'] = self._stage.groups[args['group']]
        return {'server': server, 'os:scheduler_hints': hints}

    def _created(self, names, created):
        """Return the Server objects of a request that was accepted."""
        if len(names) == 1:
            found = [dict(created, name=names[0])]
        else:
            found = self._cloud.api.api_get(
                '/servers/detail?reservation_id=%s'
                % created['reservation_id']).body['servers']
        servers = [result.Server(item['name'], id=item['id'])
                   for item in sorted(found, key=lambda item: names.index(
                       item['name']))]
        self._servers.update((server.name, server) for server in servers)
        return servers

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
        """Look at a server until it is as it should be; return what is seen.

        :param goal: what it is, should that not come true in time
        :param reached: function: (the server as the API shows it, or None
            where it is gone) -> bool
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
        names = {item['uuid']: item['name'] for item in
                 self._cloud.api.api_get('/os-aggregates').body['aggregates']}
        sentences = [] if self._watch.has_candidates else [
            'Placement has no candidate for %s:' % candidates.Request(query)]
        refused = self._watch.refusals()
        for host in self._cloud.hosts_down & refused.keys():
            refused[host] = 'the host is down'
        return sentences + candidates.explain(
            query, self._stage.providers(), names, refused, own_host)

    def flavor(self, name):
        """Return the id of a flavor of the scenario; for the verbs."""
        return self._stage.flavors[name]

    def change(self, name, action, status, migration=None):
        """Send an action to a server; for the verbs.

        :param name: name of the server
        :param action: dict, the action as the API wants it
        :param status: the status of the server once it has worked; None
            where its migration alone tells that
        :param migration: the status of its migration likewise; None where
            the action is no part of one
        :returns: whether it has worked; where Nova says no, the server keeps
            the reasons, and its status
        """
        server = self._servers[name]
        if server.id is None:
            return False
        down = self._cloud.hosts_down & migrations.hosts_of(
            self._cloud.api, server.id)
        if down and 'evacuate' not in action:
            # Nova would wait for it, and this cloud for Nova.
            self._refuse(server, 'Its host %s is down.' % min(down))
            return False
        self._watch.clear()
        try:
            self._cloud.api.post_server_action(server.id, action)
        except client.OpenStackApiException as error:
            text = stage.answer(error)
            if error.response.status_code < 500:
                self._refuse(server, text)
                return False
            # This cloud waits for the scheduler where Nova does not.
            if 'NoValidHost' not in text:
                raise result.PlayFailed(
                    '%s cannot be changed: %s' % (name, text)) from error
        shown = self._until(
            server, 'not done with its task', lambda shown:
            shown['OS-EXT-STS:task_state'] is None and
            migrations.newest_is_settled(self._cloud.api, server.id))
        newest = migrations.newest(self._cloud.api, server.id).get('status')
        if status in (None, shown['status']) and migration in (None, newest):
            return True
        self._refuse(server, 'No valid host was found.',
                     *self._reasons(shown['OS-EXT-SRV-ATTR:host']))
        return False

    def delete(self, name):
        """Delete a server; for the verbs.

        :returns: whether it is gone; False where Nova says no
        """
        server = self._servers[name]
        if server.id is None:
            return False
        try:
            self._cloud.api.delete_server(server.id)
        except client.OpenStackApiException as error:
            self._refuse(server, stage.answer(error))
            return False
        self._until(server, 'not deleted', lambda shown: shown is None)
        server.status = 'DELETED'
        return True


def _summary(outcomes):
    """Return outcomes such as "3 active, 1 refused"; "active" for one."""
    if len(outcomes) == 1:
        return outcomes[0]
    return ', '.join('%d %s' % (outcomes.count(outcome), outcome)
                     for outcome in dict.fromkeys(outcomes))
