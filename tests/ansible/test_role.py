# SPDX-License-Identifier: Apache-2.0

"""The role nova_prio in a Debian 13, with its own Ansible.

The packages, nova-prio-host and all files are real. ``nova-prio``, which needs
a cloud, is the program beside this file. The tests build on each other.
"""

import re

import pytest

from tests.debian import chroot
from tests.debian import conftest

BUILD_BASE = 'NOVA_PRIO_TEST_DEBIAN'
NOVA_BASE = 'NOVA_PRIO_TEST_DEBIAN_NOVA'
HOSTS = ('compute-1', 'compute-2')
PLANS = '/var/lib/nova-prio-plans'
PACKAGE_LIST = '/var/lib/dpkg/info/python3-nova-prio.list'
DROP_INS = '/etc/nova/nova.conf.d'
RESTARTS = 'compute-1\ncompute-1\ncompute-2\n'
# A chroot has no cgroups: the command prepares it as the image of a host.
HOST_COMMAND = '''\
#!/bin/sh
exec /usr/bin/nova-prio-host "$@" --root /proc/self/root
'''
# A CPU is in both sets.
WRONG = '''\
[DEFAULT]
compute_driver = prio.PriorityLibvirtDriver
[compute]
cpu_dedicated_set = 0-8
cpu_shared_set = 8-11
'''


class Machine:
    """A Debian 13 with Ansible and the services of Nova."""

    def __init__(self, root):
        self.root = root

    def play(self, playbook, *arguments, status=0):
        """Run a playbook; return the numbers of each host.

        :returns: dict, host -> dict, such as ``changed`` -> int
        """
        done = self.root.run(
            'ansible-playbook', '-i', '/mnt/source/tests/ansible/inventory',
            '/mnt/source/ansible/' + playbook, *arguments,
            ANSIBLE_NOCOLOR='1', ANSIBLE_RETRY_FILES_ENABLED='0')
        assert (done.returncode == 0) == (status == 0), done.stdout[-6000:]
        numbers = {}
        for host, line in re.findall(r'^(compute-\d) +: (.*)$', done.stdout,
                                     re.M):
            numbers[host] = {name: int(number) for name, number in
                             re.findall(r'(\w+)=(\d+)', line)}
        return numbers

    def read(self, path):
        """Return the text of a file, '' without a file."""
        return self.root.check('sh', '-c', 'cat %s 2>/dev/null || :' % path)

    def set_state(self, name, is_set=True):
        """Make or remove a file of the directory of the state."""
        action = 'touch' if is_set else 'rm'
        self.root.check(action, '/var/tmp/state/' + name)


@pytest.fixture(scope='module')
def machine(tmp_path_factory):
    builder = chroot.Root(chroot.find_base(BUILD_BASE),
                          tmp_path_factory.mktemp('builder'))
    builder.check('/mnt/source/tools/deb', '/mnt/shared/out',
                  DEB_BUILD_PROFILES='pkg.nova-prio.nohtml')
    root = chroot.Root(chroot.find_base(NOVA_BASE),
                       tmp_path_factory.mktemp('machine'))
    packages = conftest.find_packages(builder.shared / 'out')
    for name, path in packages.items():
        (root.shared / (name + '.deb')).write_bytes(path.read_bytes())
    root.apt('install', '--no-install-recommends', 'ansible-core',
             'python3-apt', *('/mnt/shared/%s.deb' % name
                              for name in packages))
    (root.shared / 'nova-prio-host').write_text(HOST_COMMAND)
    (root.shared / 'wrong.conf').write_text(WRONG)
    root.check('sh', '-ec', '''
        install /mnt/shared/nova-prio-host /usr/local/bin
        mkdir -p /var/tmp/state /etc/systemd/system''')
    return Machine(root)


def test_check_mode_changes_nothing(machine):
    before = machine.root.list_files('/etc', '/usr')
    machine.play('convert.yml', '--check')
    assert before == machine.root.list_files('/etc', '/usr')
    assert '' == machine.read('/var/tmp/state/restarts')
    assert '--output-dir' not in machine.read('/var/tmp/state/calls')


def test_run_stops_at_the_first_host_that_is_not_ready(machine):
    # The plan of an earlier run does not say that the host is ready now.
    machine.root.check('sh', '-ec', 'mkdir %s; touch %s/compute-1.json' % (
        PLANS, PLANS))
    machine.set_state('compute-1 not ready')
    numbers = machine.play('convert.yml', status=2)
    machine.set_state('compute-1 not ready', False)
    assert 1 == numbers['compute-1']['failed']
    assert 'compute-2' not in numbers
    assert '' == machine.read('/etc/nova/compute-1/nova-prio.conf')


def test_wrong_options_stop_the_run_before_the_restart(machine):
    # nova-prio-status reads this directory.
    machine.root.check(
        'sh', '-ec', 'mkdir -p %s; cp /mnt/shared/wrong.conf %s' % (
            DROP_INS, DROP_INS))
    numbers = machine.play('convert.yml', status=2)
    machine.root.check('rm', DROP_INS + '/wrong.conf')
    assert 1 == numbers['compute-1']['failed']
    assert machine.read('/etc/nova/compute-1/nova-prio.conf')
    assert '' == machine.read('/var/tmp/state/restarts')


def test_run_stops_at_the_first_host_that_does_not_agree(machine):
    machine.set_state('compute-1 refuses')
    numbers = machine.play('convert.yml', '-e', 'nova_prio_retries=1',
                           status=2)
    machine.set_state('compute-1 refuses', False)
    assert 1 == numbers['compute-1']['failed']
    assert 'compute-1\n' == machine.read('/var/tmp/state/restarts')


def test_hosts_are_converted_one_after_the_other(machine):
    machine.set_state('compute-1 has stale guests')
    numbers = machine.play('convert.yml')
    machine.set_state('compute-1 has stale guests', False)
    for host in HOSTS:
        assert numbers[host]['changed'] > 0
        written = machine.read('/etc/nova/%s/nova-prio.conf' % host)
        assert 'compute_driver = prio.PriorityLibvirtDriver\n' in written
        assert 'cpu_dedicated_set = 0-7\n' in written
        assert ('DAEMON_ARGS="$DAEMON_ARGS '
                '--config-file=/etc/nova/%s/nova-prio.conf"\n'
                % host == machine.read('/etc/default/' + host))
    # The run before restarted compute-1, which did not agree.
    assert RESTARTS == machine.read('/var/tmp/state/restarts')
    assert '--low-weight 1\n' == machine.read('/etc/nova-prio-host.conf')
    assert 'CPUWeight=1\n' in machine.read(
        '/etc/systemd/system/low_prio_machine.slice')


def test_second_run_changes_nothing(machine):
    numbers = machine.play('convert.yml')
    assert {host: 0 for host in HOSTS} == {
        host: numbers[host]['changed'] for host in HOSTS}
    assert RESTARTS == machine.read('/var/tmp/state/restarts')


def test_host_is_restarted_after_its_package_was_installed_again(machine):
    machine.root.check('touch', PACKAGE_LIST)
    machine.play('convert.yml', '--limit', 'compute-2')
    assert RESTARTS + 'compute-2\n' == machine.read('/var/tmp/state/restarts')


def test_converted_host_without_its_plan_is_refused(machine):
    machine.root.check('mv', PLANS, PLANS + '.lost')
    numbers = machine.play('revert.yml', status=2)
    machine.root.check('mv', PLANS + '.lost', PLANS)
    assert 1 == numbers['compute-1']['failed']
    assert machine.read('/etc/nova/compute-1/nova-prio.conf')


def test_instances_that_must_leave_stop_the_way_back(machine):
    machine.set_state('compute-1 has instances')
    numbers = machine.play('revert.yml', status=2)
    machine.set_state('compute-1 has instances', False)
    assert 1 == numbers['compute-1']['failed']
    assert machine.read('/etc/nova/compute-1/nova-prio.conf')


def test_hosts_are_taken_back(machine):
    machine.play('revert.yml')
    for host in HOSTS:
        assert '' == machine.root.check('ls', '/etc/nova/' + host)
        assert '' == machine.read('/etc/default/' + host)
    assert '' == machine.root.check('ls', PLANS)
    assert 6 == len(machine.read('/var/tmp/state/restarts').splitlines())
    numbers = machine.play('revert.yml')
    assert {host: 0 for host in HOSTS} == {
        host: numbers[host]['changed'] for host in HOSTS}
