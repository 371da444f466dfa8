# SPDX-License-Identifier: Apache-2.0

"""The Ansible role on two hosts with guests, by SSH: convert them, and back.

At first, nova-compute does not load this package. The tests build on each
other.
"""

import contextlib
import http.server
import os
import re
import subprocess
import sys
import threading

import pytest
import yaml

from tests.live import catalog
from tests.live import client
from tests.live import cloud
from tests.live import configuration
from tests.live import host
from tests.live import layout as layouts

ANSIBLE = layouts.README.parent / 'ansible'
SECONDS = 900
TRAITS = 'CUSTOM_CPU_PRIORITY'
#: nova-compute before the conversion. CPU 8 will not be dedicated any more.
STOCK = '''\
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
[compute]
cpu_dedicated_set = 0-6,8
cpu_shared_set = 7,9-11
'''
#: Sent by the command that restarts nova-compute on a host.
ASK = '''\
#!%s
import urllib.request
urllib.request.urlopen('http://%s:%d/%s', data=b'')
'''


@pytest.fixture(scope='module', autouse=True)
def watched():
    """Do not watch: a host that is not converted violates the invariants."""


class Restarts(http.server.ThreadingHTTPServer):
    """In place of systemd: restarts the nova-compute that a POST names."""

    def __init__(self, layout):
        super().__init__((layouts.ADDRESS, 0), _Handler)
        self.cloud = cloud.Cloud(layout)
        #: The host of each restart.
        self.names = []


class _Handler(http.server.BaseHTTPRequestHandler):

    def do_POST(self):
        name = self.path.strip('/')
        self.server.cloud.restart('nova-compute-' + name)
        self.server.names.append(name)
        self.send_response(204)
        self.end_headers()


@pytest.fixture(scope='module')
def restarts(layout):
    """Running Restarts."""
    with Restarts(layout) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Role:
    """The role, with an inventory of the hosts of a cloud."""

    def __init__(self, layout, restarts, directory):
        self.layout = layout
        self.restarts = restarts
        self.directory = directory
        self.plans = directory / 'plans'
        self.inventory = directory / 'inventory.yml'

    def write(self):
        """Write the inventory and the commands that it names."""
        self._write_command('nova-prio', '"$@"', *self.layout.nova_options)
        hosts = {}
        for name in self.layout.hosts:
            status = self._write_command(
                'nova-prio-status', *self._list_options(name), '"$@"',
                name=name + '-status')
            restart = self.directory / (name + '-restart')
            restart.write_text(ASK % (
                sys.executable, *self.restarts.server_address, name))
            restart.chmod(0o755)
            hosts[name] = {
                'ansible_host': self.layout.address(name),
                'nova_prio_options_file': str(self.options_file(name)),
                'nova_prio_restart': str(restart),
                'nova_prio_status_command': str(status)}
        self.inventory.write_text(yaml.safe_dump({
            'all': {'vars': {'ansible_python_interpreter': sys.executable,
                             'ansible_user': 'root'}},
            'controllers': {'hosts': {
                'controller-1': {'ansible_connection': 'local'}}},
            'priority_hosts': {'hosts': hosts, 'vars': {
                'ansible_port': layouts.SSH_PORT,
                'ansible_remote_tmp': str(self.directory / 'remote'),
                'ansible_ssh_private_key_file': str(
                    self.layout.etc / 'ssh' / 'key'),
                'ansible_ssh_args': '-o StrictHostKeyChecking=no '
                                    '-o UserKnownHostsFile=/dev/null',
                'nova_prio_controller': 'controller-1',
                'nova_prio_dedicated': '0-7',
                'nova_prio_shared': '8-11',
                'nova_prio_ratio': '2.0',
                'nova_prio_plans': str(self.plans),
                'nova_prio_command': str(self.directory / 'nova-prio'),
                'nova_prio_host_command': str(
                    layouts.PROGRAMS / 'nova-prio-host'),
                'nova_prio_options_group': 'root',
                'nova_prio_arguments_file': '',
                'nova_prio_unit_enabled': False,
                'nova_prio_delay_seconds': 3}}}))

    def _list_options(self, name):
        """Return the options of nova-compute of a host, as its cloud does."""
        files = ['--config-file=%s' % (self.layout.etc / 'nova' / file)
                 for file in ('common.conf', name + '.conf',
                              'readme-compute.conf')]
        return [*files, '--config-dir=%s' % self.layout.drop_ins(name)]

    def _write_command(self, program, *words, name=None):
        """Write a command that runs a program; return its path."""
        path = self.directory / (name or program)
        path.write_text('#!/bin/sh\nexec %s %s\n' % (
            layouts.PROGRAMS / program, ' '.join(words)))
        path.chmod(0o755)
        return path

    def options_file(self, name):
        """Return the drop-in file for nova-compute of a host."""
        return self.layout.drop_ins(name) / 'nova-prio.conf'

    def play(self, playbook, *arguments, status=0):
        """Run a playbook; return the numbers of each host.

        :returns: dict, host -> dict, such as ``changed`` -> int
        """
        environment = {
            **os.environ, 'ANSIBLE_HOME': str(self.directory / 'home'),
            'ANSIBLE_NOCOLOR': '1'}
        # Run the installed package, not the checkout.
        environment.pop('PYTHONPATH', None)
        done = subprocess.run(
            [layouts.PROGRAMS / 'ansible-playbook', '-i', self.inventory,
             ANSIBLE / playbook, *arguments], env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SECONDS)
        print(done.stdout, done.stderr)
        assert done.returncode == status
        numbers = {}
        for name, line in re.findall(r'^(compute\d) +: (.*)$', done.stdout,
                                     re.M):
            numbers[name] = {key: int(number) for key, number in
                             re.findall(r'(\w+)=(\d+)', line)}
        return numbers


@pytest.fixture(scope='module')
def role(layout, restarts, tmp_path_factory):
    """A Role for hosts that are not converted.

    At the end, nova-compute has the options of README.rst again.
    """
    found = Role(layout, restarts, tmp_path_factory.mktemp('ansible'))
    found.write()
    restart_computes(layout, STOCK)
    yield found
    for name in layout.hosts:
        for file in layout.drop_ins(name).iterdir():
            file.unlink()
        run_on_host(layout, name, layouts.PROGRAMS / 'nova-prio-host',
                    'prepare')
    restart_computes(layout, configuration.readme('nova-compute'))


def restart_computes(layout, text):
    """Start nova-compute with other options, as on hosts that are new.

    The hosts must not have servers.

    :param text: content of a nova.conf
    """
    services = cloud.Cloud(layout)
    placement = catalog.connect(layout).placement
    for name in layout.hosts:
        services.processes.stop('nova-compute-' + name)
        catalog.delete_inventories(layout, name)
        url, body = read_traits(placement, name)
        kept = [trait for trait in body['traits']
                if not trait.startswith(TRAITS)]
        placement.put(url, json={**body, 'traits': kept}).raise_for_status()
    (layout.etc / 'nova' / 'readme-compute.conf').write_text(text)
    services.start_computes()


def read_traits(placement, name):
    """Return (URL, body) of the traits of a host."""
    provider, = placement.resource_providers(name=name)
    url = '/resource_providers/%s/traits' % provider.id
    return url, placement.get(url, microversion='1.39').json()


def read_hosts(layout):
    """Return what Placement has of the hosts.

    :returns: dict, host -> (dict, resource class -> (total, reserved,
        allocation ratio), names of the traits of this package)
    """
    placement = catalog.connect(layout).placement
    found = {}
    for name in layout.hosts:
        provider, = placement.resource_providers(name=name)
        inventories = {}
        for each in placement.resource_provider_inventories(provider):
            inventories[each.resource_class] = (
                each.total, each.reserved, each.allocation_ratio)
        _url, body = read_traits(placement, name)
        found[name] = inventories, [trait for trait in body['traits']
                                    if trait.startswith(TRAITS)]
    return found


def run_on_host(layout, name, *command):
    """Run a command on a host."""
    subprocess.run([*host.read_record(layout, name)['enter'], *command],
                   stdin=subprocess.DEVNULL, check=True)


@pytest.fixture(scope='module')
def before(layout, role):
    """What Placement has of the hosts before the conversion."""
    # The hosts of a cloud are prepared when they start.
    for name in layout.hosts:
        run_on_host(layout, name, 'find', '/sys/fs/cgroup', '-name',
                    '*_prio_machine.partition', '-delete')
    return read_hosts(layout)


@pytest.fixture(scope='module')
def guest(layout, before, openstack, flavors, hosts):
    """A function that returns the ID of a running guest on the first host.

    The guest has no priority. The ID is another one if it was started again.
    """
    server = openstack.boot('ansible-ordinary', 'ordinary', '--host',
                            hosts[0])
    assert 'ACTIVE' == server['status']

    def read():
        return client.virsh(layout, hosts[0], 'domid',
                            server['OS-EXT-SRV-ATTR:instance_name'])

    yield read
    openstack.run('server', 'delete', '--wait', 'ansible-ordinary')


@pytest.fixture
def pinned(openstack, before, hosts):
    """A server on all CPUs that are dedicated before the conversion."""
    with contextlib.ExitStack() as stack:
        openstack.run('flavor', 'create', '--vcpus', 8, '--ram', 64,
                      '--disk', 1, '--property', 'hw:cpu_policy=dedicated',
                      'pinned')
        stack.callback(openstack.run, 'flavor', 'delete', 'pinned')
        stack.callback(openstack.run, 'server', 'delete', '--wait', 'pinned')
        yield openstack.boot('pinned', 'pinned', '--host', hosts[0])


def test_check_mode_changes_nothing(role, guest, before):
    role.play('convert.yml', '--check')
    assert before == read_hosts(role.layout)
    assert [] == role.restarts.names
    assert not role.plans.exists()
    for name in role.layout.hosts:
        assert [] == list(role.layout.drop_ins(name).iterdir())


def test_run_stops_at_the_first_host_that_is_not_ready(
        role, guest, pinned, hosts):
    assert 'ACTIVE' == pinned['status']
    numbers = role.play('convert.yml', status=2)
    assert 1 == numbers[hosts[0]]['failed']
    assert hosts[1] not in numbers
    assert [] == role.restarts.names
    assert not role.options_file(hosts[0]).exists()


def test_hosts_are_converted_while_a_guest_runs(role, guest, hosts):
    old = guest()
    numbers = role.play('convert.yml')
    assert all(numbers[name]['changed'] for name in hosts)
    assert list(hosts) == role.restarts.names
    assert old == guest()
    for name, (inventories, traits) in read_hosts(role.layout).items():
        assert (12, 4, 2.0) == inventories['VCPU'], name
        assert (8, 0, 1.0) == inventories['PCPU'], name
        assert [TRAITS, TRAITS + '_MIX'] == sorted(traits)


def test_second_run_changes_nothing(role, hosts):
    numbers = role.play('convert.yml')
    assert {name: 0 for name in hosts} == {
        name: numbers[name]['changed'] for name in hosts}
    assert list(hosts) == role.restarts.names


def test_low_server_stops_the_way_back(role, boot, hosts):
    for name in hosts:
        for flavor in 'high', 'low':
            server = boot('ansible-%s-%s' % (flavor, name), flavor, '--host',
                          name)
            assert 'ACTIVE' == server['status'], server.get('fault')
    numbers = role.play('revert.yml', status=2)
    assert 1 == numbers[hosts[0]]['failed']
    assert hosts[1] not in numbers
    assert role.options_file(hosts[0]).exists()


def test_hosts_are_taken_back_while_a_guest_runs(role, guest, before, hosts):
    old = guest()
    role.play('revert.yml')
    assert before == read_hosts(role.layout)
    assert 2 * list(hosts) == role.restarts.names
    assert old == guest()
    assert [] == list(role.plans.iterdir())
    numbers = role.play('revert.yml')
    assert {name: 0 for name in hosts} == {
        name: numbers[name]['changed'] for name in hosts}
