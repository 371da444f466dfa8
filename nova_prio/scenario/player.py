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

import time
import uuid

from nova.tests.functional.api import client

from nova_prio.objects import host_report
from nova_prio.scenario import candidates
from nova_prio.scenario import cloud as embedded
from nova_prio.scenario import cpu_set
from nova_prio.scenario import document as scenario
from nova_prio.scenario import last_words
from nova_prio.scenario import result
from nova_prio.scenario import source
from nova_prio.scenario import watch

DRIVERS = {'prio': embedded.PRIORITY_DRIVER, 'stock': embedded.STOCK_DRIVER}

#: Seconds until a server is active or refused, and between two looks at it.
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
        self._watch = cloud.useFixture(watch.SchedulerWatch())
        self._flavors = {}
        self._images = {}
        self._groups = {}
        self._servers = {}

    def play(self):
        """Play it.

        :returns: :class:`nova_prio.scenario.result.Result`
        :raises nova_prio.scenario.source.BadScenario: where Nova refuses
            a host, flavor or server group of the file
        :raises nova_prio.scenario.result.PlayFailed: where it cannot go on
        """
        self._set_up()
        surprises = []
        steps = self._document.steps
        for position, step in enumerate(steps):
            outcomes = step.verb.play(step.args, self)
            self._progress('[%d/%d] %s: %s' % (
                position + 1, len(steps), step.title, _summary(outcomes)))
            if step.expect and set(outcomes) != {step.expect}:
                surprises.append(self._document.problem(
                    ('steps', position, 'expect'),
                    '%r did not come true: %s is %s' % (
                        step.expect, step.title, _summary(outcomes))))
        return result.Result(
            [self._seen(server) for server in self._servers.values()],
            [self._host(host) for host in self._document.hosts], surprises)

    def _set_up(self):
        for position, host in enumerate(self._document.hosts):
            self._start(position, host)
            self._progress('host %s started' % host['name'])
        for position, flavor in enumerate(self._document.flavors):
            self._flavors[flavor['name']] = self._accepted(
                ('flavors', position), self._cloud._create_flavor,
                name=flavor['name'], vcpu=flavor['vcpus'],
                memory_mb=flavor['memory_mb'], disk=flavor['disk_gb'],
                ephemeral=0, extra_spec=flavor['extra_specs'] or None)
        for image in [{'name': scenario.DEFAULT_IMAGE, 'properties': {}},
                      *self._document.images]:
            self._images[image['name']] = self._cloud.glance.create(
                None, dict(self._cloud.glance.image1, id=str(uuid.uuid4()),
                           name=image['name'],
                           properties=dict(image['properties'])))['id']
        for position, group in enumerate(self._document.server_groups):
            self._groups[group['name']] = self._accepted(
                ('server_groups', position),
                self._cloud.api.post_server_groups,
                {'name': group['name'], 'policy': group['policy']})['id']

    def _start(self, position, host):
        options = {key: host[key] for key in (
            'name', 'cpus', 'cells', 'threads', 'dedicated', 'shared',
            'ratio', 'mix', 'memory_mb', 'aggregate')}
        with last_words.listening() as said:
            try:
                self._cloud.start_host(
                    driver=DRIVERS[host['driver']], **options)
            except SystemExit as error:
                raise source.BadScenario([self._document.problem(
                    ('hosts', position),
                    'nova-compute of %s does not start: %s'
                    % (host['name'], said.text))]) from error

    def _accepted(self, path, call, *args, **kwargs):
        try:
            return call(*args, **kwargs)
        except client.OpenStackApiException as error:
            raise source.BadScenario([self._document.problem(
                path, 'Nova refuses it: %s' % _answer(error))]) from error

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
                    args['name'], _answer(error))) from error
            for name in names:
                self._servers[name] = result.Server(
                    name, fault=_answer(error))
            return ['refused'] * len(names)
        return [self._settled(server)
                for server in self._created(names, created)]

    def _body(self, names, args):
        server = {
            'name': args['name'] if len(names) > 1 else names[0],
            'flavorRef': self._flavors[args['flavor']],
            'imageRef': self._images[args['image'] or scenario.DEFAULT_IMAGE],
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
            hints['group'] = self._groups[args['group']]
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
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            shown = self._cloud.api.get_server(server.id)
            if shown['status'] == 'ACTIVE':
                return 'active'
            if shown['status'] == 'ERROR' and 'fault' in shown:
                server.fault = '\n'.join(
                    [shown['fault']['message'].strip(), *self._reasons()])
                return 'refused'
            time.sleep(INTERVAL_SECONDS)
        raise result.PlayFailed(
            '%s is neither active nor refused after %d seconds'
            % (server.name, PATIENCE_SECONDS))

    def _reasons(self):
        if self._watch.unanswered is None:
            return self._watch.refusals()
        names = {item['uuid']: item['name'] for item in
                 self._cloud.api.api_get('/os-aggregates').body['aggregates']}
        return candidates.explain(
            self._watch.unanswered, self._providers(), names)

    def _providers(self):
        def read(provider_id, part):
            return self._cloud.placement.get(
                '/resource_providers/%s/%s' % (provider_id, part),
                version='1.30').body[part]

        return [
            candidates.Provider(
                name=item['name'], uuid=item['uuid'],
                inventories=read(item['uuid'], 'inventories'),
                usages=read(item['uuid'], 'usages'),
                traits=frozenset(read(item['uuid'], 'traits')),
                aggregates=frozenset(read(item['uuid'], 'aggregates')))
            for item in self._cloud.placement.get(
                '/resource_providers', version='1.30'
            ).body['resource_providers']]

    def delete(self, name):
        """Delete a server; for the verbs.

        :returns: 'deleted', or 'refused' where Nova says no
        """
        server = self._servers[name]
        if server.id is None:
            return 'refused'
        try:
            self._cloud.api.delete_server(server.id)
        except client.OpenStackApiException as error:
            server.fault = _answer(error)
            return 'refused'
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                self._cloud.api.get_server(server.id)
            except client.OpenStackApiNotFoundException:
                server.status = 'DELETED'
                return 'deleted'
            time.sleep(INTERVAL_SECONDS)
        raise result.PlayFailed('%s is not deleted after %d seconds' % (
            name, PATIENCE_SECONDS))

    def _seen(self, server):
        """Return a server with what Nova and its guest say of it now."""
        if server.id is None or server.status == 'DELETED':
            return server
        shown = self._cloud.api.get_server(server.id)
        server.status = shown['status']
        server.priority = shown['flavor'].get('extra_specs', {}).get(
            'hw:cpu_priority')
        server.host = shown['OS-EXT-SRV-ATTR:host']
        if server.status == 'ACTIVE':
            server.cpus, server.partition = result.guest(
                self._cloud.guest_xml(server.id), next(
                    host['cpus'] for host in self._document.hosts
                    if host['name'] == server.host))
        return server

    def _host(self, host):
        name = host['name']
        provider = '/resource_providers/%s/' % (
            self._cloud.compute_rp_uuids[name])
        found = result.Host(
            name, host['cpus'],
            *(cpu_set.parse(host[key]) if host[key] else frozenset()
              for key in ('dedicated', 'shared')),
            inventory=self._cloud.placement.get(
                provider + 'inventories').body['inventories'],
            allocations=self._cloud.placement.get(
                provider + 'allocations').body['allocations'])
        node, = self._cloud.computes[name].manager.rt.compute_nodes.values()
        reported = host_report.HostReport.from_stats(node.stats)
        if reported is not None:
            found.classes = {
                row: {'sellable': getattr(reported.sellable, row),
                      'used': getattr(reported.used, row)}
                for row in result.ROWS}
        return found


def _summary(outcomes):
    """Return outcomes such as "3 active, 1 refused"; "active" for one."""
    if len(outcomes) == 1:
        return outcomes[0]
    return ', '.join('%d %s' % (outcomes.count(outcome), outcome)
                     for outcome in dict.fromkeys(outcomes))


def _answer(error):
    """Return what an answer of Nova's API says, in one line."""
    response = error.response
    try:
        message, = (part['message'] for part in response.json().values())
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text
    return 'HTTP %d: %s' % (response.status_code, ' '.join(message.split()))
