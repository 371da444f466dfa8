# SPDX-License-Identifier: Apache-2.0

"""The plug-in of DevStack, with stand-ins for DevStack's functions.

A stand-in prints what it is asked, one call a line.
"""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PLUGIN = ROOT / 'devstack'
SERVICES = ROOT / 'etc' / 'nova_prio' / 'services'
STAND_INS = r'''
set -eu
for name in iniset iniset_multiline setup_develop sudo; do
    eval "function $name { echo $name \"\$@\"; }"
done
# HOSTS is the output of "aggregate show", empty without the aggregate.
function openstack {
    if [[ $4 != show ]]; then
        echo openstack "$@"
    elif [[ -n $HOSTS ]]; then
        echo "$HOSTS"
    else
        return 1
    fi
}
function iniget { echo "$FILTERS"; }
function is_service_enabled { [[ " $SERVICES " == *" $1 "* ]]; }
function die { echo "die: ${*:2}" >&2; exit 1; }
function trueorfalse { echo "${!2:-$1}"; }
function hostname { echo host-1; }
NOVA_CONF=/etc/nova/nova.conf
NOVA_BIN_DIR=/venv/bin
'''
LOCAL_CONF = {'NOVA_PRIO_DEDICATED_SET': '0-7', 'NOVA_PRIO_SHARED_SET': '8-11'}
ALL = 'n-api n-cpu n-sch'
STOCK = 'ComputeFilter,SameHostFilter,DifferentHostFilter'


def run(*phase, services=ALL, filters=STOCK, hosts='', status=0,
        **local_conf):
    """Source the plug-in as DevStack does; return the calls, a list.

    If the status is not 0, return the lines of the errors instead.

    :param phase: the arguments of ``plugin.sh``
    """
    script = '%s\nsource %s/settings\nsource %s/plugin.sh %s' % (
        STAND_INS, PLUGIN, PLUGIN, ' '.join(phase))
    done = subprocess.run(
        ['bash', '-c', script], capture_output=True, text=True,
        env={'PATH': '/usr/bin:/bin', 'SERVICES': services,
             'FILTERS': filters, 'HOSTS': hosts, **local_conf})
    assert done.returncode == status, done.stdout + done.stderr
    output = done.stdout
    if status:
        output = done.stderr
    return output.splitlines()


def read_options(calls):
    """Return the options that the calls set: (section, option) -> value."""
    options = {}
    for call in calls:
        word, *arguments = call.split(' ')
        if word.startswith('iniset'):
            path, section, option, *values = arguments
            assert path == '/etc/nova/nova.conf'
            options[section, option] = ' '.join(values)
    return options


def read_shipped(service):
    """Return the options of a shipped file, as ``read_options``."""
    options = {}
    for line in (SERVICES / (service + '.conf')).read_text().splitlines():
        if line.startswith('['):
            section = line.strip('[]')
        elif re.match('[a-z]', line):
            option, value = line.split(' = ')
            before = options.get((section, option))
            options[section, option] = ' '.join(filter(None, (before, value)))
    return options


def test_install_has_the_libraries_of_the_command():
    assert run('stack', 'install') == ['setup_develop %s cli' % ROOT]


def test_options_are_those_of_the_shipped_files():
    options = read_options(run('stack', 'post-config', **LOCAL_CONF))
    shipped = {}
    for service in ('nova-compute', 'nova-scheduler', 'nova-api'):
        shipped |= read_shipped(service)
    shipped['filter_scheduler', 'enabled_filters'] = STOCK + ',PriorityFilter'
    shipped['DEFAULT', 'cpu_priority_mix_enable'] = 'True'
    assert options == shipped


def test_host_is_prepared():
    assert 'sudo /venv/bin/nova-prio-host prepare' in run(
        'stack', 'post-config', **LOCAL_CONF)


@pytest.mark.parametrize('filters', [
    'ComputeFilter,NUMATopologyFilter,SameHostFilter',
    'ComputeFilter,SameHostFilter,PriorityFilter',
    'ComputeFilter, SameHostFilter'])
def test_filters_are_read_back(filters):
    options = read_options(run('stack', 'post-config', services='n-sch',
                               filters=filters))
    assert 'ComputeFilter,SameHostFilter,PriorityFilter' == options[
        'filter_scheduler', 'enabled_filters']


def test_each_service_gets_its_options_only():
    assert read_options(run('stack', 'post-config', services='n-api')) == {
        ('nova_prio', 'enabled'): 'true'}
    assert run('stack', 'post-config', services='g-api') == []


def test_missing_sets_and_filters_end_the_installation():
    assert run('stack', 'post-config', status=1) == [
        'die: NOVA_PRIO_DEDICATED_SET is not set: name CPUs in local.conf.']
    assert run('stack', 'post-config', services='n-sch', filters='',
               status=1) == [
        'die: /etc/nova/nova.conf has no [filter_scheduler] enabled_filters.']


@pytest.mark.parametrize('phase', [
    ('stack', 'pre-install'), ('stack', 'extra'), ('unstack',)])
def test_other_phases_do_nothing(phase):
    assert run(*phase) == []


def test_new_aggregate_gets_the_host():
    admin = 'openstack --os-cloud devstack-admin aggregate '
    created = admin + 'create --property priority_mix=true priority'
    assert run('stack', 'test-config') == [
        created, admin + 'add host priority host-1']
    assert run('stack', 'test-config', services='n-api') == [created]
    assert run('stack', 'test-config', services='n-cpu') == []


def test_aggregate_of_an_earlier_installation_is_kept():
    assert run('stack', 'test-config', hosts='{"hosts": ["host-1"]}') == []
    assert run('stack', 'test-config', hosts='{"hosts": ["host-12"]}') == [
        'openstack --os-cloud devstack-admin aggregate add host priority '
        'host-1']


def test_clean_removes_slices_and_cgroups():
    calls = run('clean')
    assert calls[0].startswith('sudo rm -f ')
    assert '/etc/systemd/system/low_prio_machine.slice' in calls[0]
    assert calls[1] == 'sudo systemctl daemon-reload'
    assert calls[2].startswith('sudo find /sys/fs/cgroup ')


@pytest.mark.parametrize('linter', ['shellcheck', 'bashate'])
def test_linters_find_nothing(linter):
    done = subprocess.run(
        [linter, PLUGIN / 'plugin.sh', PLUGIN / 'settings'],
        capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, '')
