# SPDX-License-Identifier: Apache-2.0

"""Prometheus and node_exporter of a live cloud, as an operator runs them.

One node_exporter runs on each host, and one on the controller, which is this
machine. Nothing runs the timers of systemd: ``Prometheus.collect`` does.
"""

import configparser
import contextlib
import datetime
import shlex
import socket
import subprocess
import time

import requests
import yaml

from tests.live import host
from tests.live import layout as layouts
from tests.live import processes as running
from tests.live import waiting

CONTROLLER = 'controller'
ETC = layouts.README.parent / 'etc'
#: The directory of the files of Debian's node_exporter, as in the units.
FILES = '/var/lib/prometheus/node-exporter'
#: Seconds between two scrapes, and between two evaluations of the rules.
INTERVAL_SECONDS = 1
#: Maximum seconds of a command, and until Prometheus has its metrics.
SECONDS = 120
TIMES = '{__name__=~"nova_prio(_host)?_collection_timestamp_seconds"}'


class Prometheus:
    """The Prometheus of a cloud, and the files that it reads.

    ``nodes`` are CONTROLLER and the names of the hosts. Each is the label
    "instance" of its metrics.
    """

    def __init__(self, layout, directory):
        """Start nothing yet.

        :param directory: pathlib.Path of an empty directory
        """
        self.nodes = CONTROLLER, *layout.hosts
        self._layout = layout
        self._directory = directory
        self._ports = {name: _find_free_port()
                       for name in ('prometheus', *self.nodes)}
        self._url = 'http://%s/' % self._address('prometheus')

    def _address(self, name):
        return '%s:%d' % (layouts.ADDRESS, self._ports[name])

    @contextlib.contextmanager
    def run(self):
        """Run node_exporter on each node, and Prometheus, in the context."""
        processes = running.Processes(self._layout)
        with contextlib.ExitStack() as stack:
            for name in self.nodes:
                (self._directory / name).mkdir()
                stack.callback(processes.stop, 'node-exporter-' + name)
                processes.start(
                    'node-exporter-' + name, *self._enter(name),
                    'prometheus-node-exporter', '--collector.disable-defaults',
                    '--collector.textfile', '--collector.textfile.directory',
                    self._directory / name,
                    '--web.listen-address', self._address(name))
            self._write_configuration()
            stack.callback(processes.stop, 'prometheus')
            processes.start(
                'prometheus', 'prometheus',
                '--config.file', self._directory / 'prometheus.yml',
                '--storage.tsdb.path', self._directory / 'data',
                '--web.listen-address', self._address('prometheus'))
            processes.wait('prometheus', lambda: requests.get(
                self._url + '-/ready', timeout=SECONDS).ok)
            yield

    def _enter(self, node):
        """Return the beginning of a command that runs on a node."""
        return [] if node == CONTROLLER else host.read_record(
            self._layout, node)['enter']

    def _write_configuration(self):
        rules = yaml.safe_load(
            (ETC / 'prometheus' / 'nova_prio.rules.yml').read_text())
        for group in rules['groups']:
            for rule in group['rules']:
                # Alerts fire at once, not after up to half an hour.
                rule.pop('for', None)
        every = '%ds' % INTERVAL_SECONDS
        for name, content in {
                'rules.yml': rules,
                'prometheus.yml': {
                    'global': {'scrape_interval': every,
                               'evaluation_interval': every},
                    'rule_files': ['rules.yml'],
                    'scrape_configs': [{
                        'job_name': 'node', 'static_configs': [
                            {'targets': [self._address(node)],
                             'labels': {'instance': node}}
                            for node in self.nodes]}]}}.items():
            (self._directory / name).write_text(yaml.safe_dump(content))

    def collect(self, *nodes):
        """Run the commands of the units, and wait until the rules have run.

        :param nodes: all by default
        """
        started = time.time()
        nodes = nodes or self.nodes
        for node in nodes:
            subprocess.run(
                self._command(node), stdin=subprocess.DEVNULL, check=True,
                timeout=SECONDS)
        waiting.soon(self._has_metrics, set(nodes), started,
                     every=INTERVAL_SECONDS / 2, within=SECONDS)
        waiting.soon(self._has_evaluated_rules, time.time(),
                     every=INTERVAL_SECONDS / 2, within=SECONDS)

    def _command(self, node):
        """Return the command of the unit of a node, for the live cloud."""
        unit = 'nova-prio%s-metrics.service' % (
            '' if node == CONTROLLER else '-host')
        service = configparser.ConfigParser(interpolation=None)
        service.read_string((ETC / 'systemd' / unit).read_text())
        program, *words = shlex.split(service['Service']['ExecStart'])
        if node == CONTROLLER:
            words += self._layout.nova_options
        return [*self._enter(node), layouts.PROGRAMS / program,
                *(word.replace(FILES, str(self._directory / node))
                  for word in words)]

    def _has_metrics(self, nodes, started):
        """Return whether Prometheus has newer metrics of all nodes.

        :param started: seconds since 1970
        """
        return nodes <= {labels['instance'] for labels, seconds in
                         self.query(TIMES) if seconds >= started}

    def _has_evaluated_rules(self, since):
        """Return whether an evaluation began later and has ended.

        :param since: seconds since 1970
        """
        return all(datetime.datetime.fromisoformat(
            group['lastEvaluation']).timestamp() > since
            for group in self._get('rules')['groups'])

    def _get(self, path, **parameters):
        response = requests.get(
            '%sapi/v1/%s' % (self._url, path), parameters, timeout=SECONDS)
        answer = response.json()
        if answer['status'] != 'success':
            raise RuntimeError('%s %s: %s' % (
                path, parameters, answer['error']))
        return answer['data']

    def query(self, expression):
        """Return the present results, a list of (dict of labels, number)."""
        return [(each['metric'], float(each['value'][1])) for each in
                self._get('query', query=expression)['result']]

    def list_values(self, metric, label):
        """Return the values of a label of a metric, a list of str."""
        return self._get('label/%s/values' % label, **{'match[]': metric})

    def list_rules(self):
        """Return the rules, a list of dict."""
        return [rule for group in self._get('rules')['groups']
                for rule in group['rules']]

    def list_alerts(self):
        """Return the labels of the alerts that fire, a list of dict."""
        return [alert['labels'] for alert in self._get('alerts')['alerts']
                if alert['state'] == 'firing']


def _find_free_port():
    with socket.socket() as found:
        found.bind((layouts.ADDRESS, 0))
        return found.getsockname()[1]
