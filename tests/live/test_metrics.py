# SPDX-License-Identifier: Apache-2.0

"""The metrics, the dashboard and the alerts with a real Prometheus.

Each host has 8 dedicated CPUs, and each server has 4 vCPUs.
"""

import contextlib
import functools
import json
import math
import pathlib
import re
import subprocess
import uuid

import pytest

from tests.live import client
from tests.live import cloud
from tests.live import host
from tests.live import layout as layouts
from tests.live import monitoring
from tests.live import waiting

DASHBOARD = json.loads(
    (monitoring.ETC / 'grafana' / 'nova_prio.json').read_text())
EXPRESSIONS = [pytest.param(target['expr'], id=panel['title'])
               for panel in DASHBOARD['panels']
               for target in panel.get('targets', ())]
#: Expressions that have data only after a fault.
FAULT_EXPRESSIONS = [each.values[0] for each in EXPRESSIONS
                     if each.values[0].endswith(' > 0')]
#: Whether the kernel measures how long the guests of a partition wait.
HAS_PRESSURE = all(map(pathlib.Path.exists, map(pathlib.Path, (
    '/sys/fs/cgroup/cgroup.controllers', '/proc/pressure/cpu'))))
#: Alerts that depend on how busy this machine is.
LOAD_ALERTS = {'NovaPrioLowGuestsStarved', 'NovaPrioHighGuestsWait'}
#: Maximum seconds until nova-compute updates its report.
UPDATE_SECONDS = 150
#: A guest on a dedicated CPU that no server is pinned to: Nova takes the
#: lowest free CPUs.
ORPHAN = '''\
<domain type='qemu'>
  <name>orphan</name>
  <memory unit='MiB'>16</memory>
  <vcpu cpuset='7'>1</vcpu>
  <os><type>hvm</type></os>
</domain>
'''


@pytest.fixture(scope='module', autouse=True)
def watched():
    """Do not watch: an orphan guest violates the invariants."""


@pytest.fixture(scope='module')
def prometheus(layout, hosts, tmp_path_factory):
    """A Prometheus with metrics from before any server exists."""
    found = monitoring.Prometheus(layout, tmp_path_factory.mktemp('metrics'))
    with found.run():
        found.collect()
        yield found


@pytest.fixture(scope='module')
def servers(prometheus, admin, image, flavors, hosts):
    """A low server on each host, and a high one on the first."""
    compute = admin.compute
    with contextlib.ExitStack() as stack:
        found = []
        for flavor, name in (('high', hosts[0]),
                             *(('low', name) for name in hosts)):
            found.append(compute.create_server(
                name='measured-' + flavor, image_id=image.id, host=name,
                flavor_id=compute.find_flavor(flavor).id, networks='none'))
            stack.callback(compute.wait_for_delete, found[-1], wait=300)
            stack.callback(compute.delete_server, found[-1])
        for server in found:
            compute.wait_for_server(server, wait=300)
        # A rate needs two measurements.
        for _ in range(2):
            prometheus.collect()
        yield found


@pytest.fixture(scope='module')
def faults(prometheus, servers, layout, admin, hosts, tmp_path_factory):
    """An orphan guest on a dedicated CPU, and an orphaned allocation."""
    file = tmp_path_factory.mktemp('orphan') / 'orphan.xml'
    file.write_text(ORPHAN)
    consumer = str(uuid.uuid4())
    url = '/allocations/' + consumer
    provider = admin.placement.find_resource_provider(hosts[0])
    with contextlib.ExitStack() as stack:
        client.virsh(layout, hosts[0], 'create', str(file))
        stack.callback(client.virsh, layout, hosts[0], 'destroy', 'orphan')
        stack.callback(admin.placement.delete, url)
        admin.placement.put(url, json={
            'consumer_generation': None, 'consumer_type': 'INSTANCE',
            'project_id': consumer, 'user_id': consumer, 'allocations': {
                provider.id: {'resources': {'VCPU': 3}}}}).raise_for_status()
        soon_after_collecting(prometheus, functools.partial(
            prometheus.query, 'nova_prio_blocked_cpus == 1'))
        yield


@pytest.fixture
def disabled(layout, servers, hosts):
    """The name of a host that is disabled for priority instances."""
    name = hosts[1]
    # The host keeps its low-priority server: exit status 3.
    assert 3 == run_for_host(layout, 'disable', name, '--timeout=0')
    yield name
    enable(layout, name)


def enable(layout, name):
    """Enable a host for priority instances."""
    assert 0 == run_for_host(layout, 'enable', name)


def run_for_host(layout, *words):
    """Run ``nova-prio host`` on the controller; return the exit status."""
    return subprocess.run(
        [layouts.PROGRAMS / 'nova-prio', 'host', *words,
         *layout.nova_options],
        stdin=subprocess.DEVNULL, timeout=monitoring.SECONDS).returncode


@pytest.fixture
def broken(layout, hosts):
    """The name of a host without the partition of high-priority guests."""
    name = hosts[1]
    run_on_host(layout, name, 'find', '/sys/fs/cgroup', '-name',
                'high_prio_machine.partition', '-delete')
    yield name
    repair(layout, name)


def repair(layout, name):
    """Make the partitions of a host again, as an operator does."""
    run_on_host(layout, name, layouts.PROGRAMS / 'nova-prio-host', 'prepare')


def run_on_host(layout, name, *command):
    """Run a command on a host."""
    subprocess.run([*host.read_record(layout, name)['enter'], *command],
                   stdin=subprocess.DEVNULL, timeout=monitoring.SECONDS,
                   check=True)


def soon_after_collecting(prometheus, check):
    """Collect the metrics of the cloud until a function returns true."""
    def collect_and_check():
        prometheus.collect(monitoring.CONTROLLER)
        return check()
    waiting.soon(collect_and_check, every=2, within=UPDATE_SECONDS)


def find_alerts(prometheus, name):
    """Return the label that tells where an alert fires, a set of its values.

    The label is the host, the instance, the aggregate or the kind.
    """
    return {labels.get('host') or labels.get('instance') or
            labels.get('aggregate') or labels.get('kind')
            for labels in prometheus.list_alerts()
            if labels['alertname'] == name}


def fill_in(prometheus, expression):
    """Return an expression with each value of its template variable."""
    expression = expression.replace('$__rate_interval', '5m')
    for variable in DASHBOARD['templating']['list']:
        name = '$' + variable['name']
        if name in expression:
            metric, label = re.fullmatch(
                r'label_values\((\w+), (\w+)\)',
                variable['definition']).groups()
            return [expression.replace(name, value) for value in
                    prometheus.list_values(metric, label)]
    return [expression]


def test_node_exporter_reads_all_files(prometheus):
    assert dict.fromkeys(prometheus.nodes, 0) == {
        labels['instance']: value for labels, value in
        prometheus.query('node_textfile_scrape_error')}


def test_prometheus_evaluates_all_rules(prometheus):
    rules = prometheus.list_rules()
    assert len(rules) > 10
    assert [] == [rule for rule in rules if rule['health'] != 'ok']


def test_numbers_are_those_of_the_servers(prometheus, servers, hosts):
    def read(expression, *names):
        return {tuple(map(labels.get, names)): value
                for labels, value in prometheus.query(expression)}

    guests = {(name, row): int(row == 'low' or name == hosts[0])
              for name in hosts for row in ('high', 'low')}
    assert guests == read(
        'nova_prio_partition_guests', 'instance', 'priority')
    assert {key: 4 * count for key, count in guests.items()} == read(
        'nova_prio_cpus{state="sold", row!="ordinary"}', 'host', 'row')


def test_no_alert_fires_if_all_is_well(prometheus, servers):
    assert LOAD_ALERTS >= {
        labels['alertname'] for labels in prometheus.list_alerts()}


@pytest.mark.parametrize('expression', EXPRESSIONS)
def test_expression_of_dashboard_has_data(expression, prometheus, servers):
    filled = fill_in(prometheus, expression)
    assert filled
    for each in filled:
        values = [value for _, value in prometheus.query(each)]
        # cgroup v1 does not measure how long guests wait.
        has_data = each not in FAULT_EXPRESSIONS and (
            HAS_PRESSURE or 'cpu_waiting' not in each)
        assert has_data == bool(values), each
        assert not any(map(math.isnan, values)), each


def test_alert_of_finding_stops_after_fix(prometheus, faults, layout):
    name = 'NovaPrioAuditFinding'
    for expression in FAULT_EXPRESSIONS:
        assert prometheus.query(expression), expression
    assert {'orphaned_allocation'} == find_alerts(prometheus, name)
    cloud.Cloud(layout).audit()
    prometheus.collect(monitoring.CONTROLLER)
    assert set() == find_alerts(prometheus, name)


def test_alert_of_room_counts_no_disabled_host(
        prometheus, servers, layout, disabled):
    """The first host alone has no room for its own pinned vCPUs."""
    name = 'NovaPrioNoRoomForHighGuests'
    prometheus.collect(monitoring.CONTROLLER)
    assert {'priority'} == find_alerts(prometheus, name)
    enable(layout, disabled)
    prometheus.collect(monitoring.CONTROLLER)
    assert set() == find_alerts(prometheus, name)


def test_alert_of_broken_partition_stops_after_repair(
        prometheus, servers, boot, layout, broken):
    def fires(name):
        return find_alerts(prometheus, name)

    prometheus.collect()
    assert {broken} == fires('NovaPrioCgroupProblem')
    # nova-compute notices the fault when a guest fails to start.
    assert 'ERROR' == boot('refused', 'high', '--host', broken)['status']
    soon_after_collecting(
        prometheus, lambda: fires('NovaPrioPartitionBroken') == {broken})
    assert {'priority'} == fires('NovaPrioNoRoomForHighGuests')
    repair(layout, broken)
    prometheus.collect()
    assert set() == fires('NovaPrioCgroupProblem')
    soon_after_collecting(
        prometheus, lambda: not fires('NovaPrioPartitionBroken'))
    assert set() == fires('NovaPrioNoRoomForHighGuests')
    assert 'ACTIVE' == boot('admitted', 'high', '--host', broken)['status']
