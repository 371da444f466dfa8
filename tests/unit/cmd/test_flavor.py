# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio flavor compile``."""

import json

import pytest

from nova_prio.cmd import main

NUMBERS = ('resources:VCPU=3', 'resources:PCPU=5', 'hw:numa_nodes=2')


@pytest.fixture
def run(capsys):
    """Return a function that runs the command.

    The function returns (exit status, standard output, standard error).
    """

    def flavor_compile(*arguments, properties=()):
        status = main.main(['flavor', 'compile', *arguments] + [
            '--property=' + each for each in properties])
        out, err = capsys.readouterr()
        return status, out, err

    return flavor_compile


def test_compile_gives_the_example_of_the_design(run):
    status, out, _err = run('--vcpus', '8', '--ram', '512', '--disk', '1',
                            '-f', 'json', properties=NUMBERS)
    assert 0 == status
    assert {
        'priority': None,
        'cpu_policy': 'mixed',
        'dedicated_cpus': '2-3,5-7',
        'shared_cpus': '0-1,4',
        'numa_nodes': [
            {'node': 0, 'dedicated_cpus': '2-3', 'shared_cpus': '0-1',
             'memory_mb': 256},
            {'node': 1, 'dedicated_cpus': '5-7', 'shared_cpus': '4',
             'memory_mb': 256}],
        'placement_request': {
            'PCPU': 5, 'VCPU': 3, 'MEMORY_MB': 512, 'DISK_GB': 1},
        'extra_specs': {
            'hw:numa_nodes': '2', 'hw:cpu_policy': 'mixed',
            'hw:cpu_dedicated_mask': '2-3,5-7'},
    } == json.loads(out)


@pytest.mark.parametrize('arguments, properties, expected', [
    # The image decides the number of NUMA nodes.
    (['--image-property=hw_numa_nodes=2'],
     ['resources:VCPU=3', 'resources:PCPU=5'],
     {'dedicated_cpus': '2-3,5-7'}),
    (['--hint=priority=high'], NUMBERS,
     {'priority': 'high', 'cpu_policy': 'mixed'}),
    (['--hint=priority=low'], [],
     {'priority': 'low', 'cpu_policy': 'shared', 'dedicated_cpus': '',
      'shared_cpus': '0-7', 'numa_nodes': [],
      'placement_request': {'VCPU': 8, 'MEMORY_MB': 256}}),
    (['--image-property=hw_cpu_policy=dedicated'], [],
     {'cpu_policy': 'dedicated', 'dedicated_cpus': '0-7',
      'shared_cpus': ''}),
    ([], ['resources:PCPU=6', 'resources:VCPU=3',
          'hw:emulator_threads_policy=isolate'],
     {'dedicated_cpus': '3-7',
      'placement_request': {'PCPU': 6, 'VCPU': 3, 'MEMORY_MB': 256}}),
    ([], ['resources:PCPU=5', 'resources:VCPU=3', 'hw:cpu_realtime=yes'],
     {'dedicated_cpus': '3-7',
      'extra_specs': {'hw:cpu_policy': 'mixed', 'hw:cpu_realtime': 'yes',
                      'hw:cpu_realtime_mask': '3-7'}}),
    # If one of the numbers is 0, the policy is dedicated or shared.
    ([], ['resources:PCPU=8', 'resources:VCPU=0'],
     {'cpu_policy': 'dedicated', 'dedicated_cpus': '0-7',
      'placement_request': {'PCPU': 8, 'MEMORY_MB': 256}}),
    ([], ['resources:PCPU=0', 'resources:VCPU=8'],
     {'cpu_policy': 'shared', 'dedicated_cpus': '',
      'placement_request': {'VCPU': 8, 'MEMORY_MB': 256}}),
])
def test_compile_shows_the_folded_flavor(run, arguments, properties, expected):
    status, out, err = run('--vcpus=8', '-f', 'json', *arguments,
                           properties=properties)
    assert 0 == status, err
    shown = json.loads(out)
    assert expected == {name: shown[name] for name in expected}


@pytest.mark.parametrize('arguments', [
    ['--property=resources:PCPU'], ['--property==5'], ['--vcpus=eight'],
    ['--hint=high'], ['--image-property=hw_numa_nodes']])
def test_wrong_usage_names_the_argument(run, arguments):
    status, out, err = run(*arguments)
    assert (2, '') == (status, out)
    name, _, value = arguments[0].partition('=')
    line = err.splitlines()[-1]
    assert 'argument %s: ' % name in line
    assert value in line


def test_table_format(run):
    status, out, _err = run('--vcpus=8', properties=NUMBERS)
    assert 0 == status
    assert "PCPU='5', VCPU='3'" in out
    assert "dedicated_cpus='5-7', memory_mb='128', node='1'" in out


@pytest.mark.parametrize('arguments, properties, expected', [
    (['--vcpus=8'], ['resources:PCPU=5', 'resources:VCPU=4'],
     ['5 and 4', '8 vCPUs']),
    # Nova itself refuses these.
    (['--vcpus=7'], ['resources:PCPU=4', 'resources:VCPU=3',
                     'hw:numa_nodes=2'], ['NUMA nodes']),
    (['--vcpus=4'], ['hw:cpu_policy=mixed'], ['hw:cpu_dedicated_mask']),
    (['--vcpus=4', '--hint=priority=urgent'], [], ["'urgent'"]),
    # nova-api refuses these when a flavor is created.
    (['--vcpus=8'], ['resources:PCPUS=5', 'resources:VCPU=3'],
     ["'resources:PCPUS'"]),
    (['--vcpus=4'], ['hw:cpu_prioirty=high'], ["'hw:cpu_prioirty'"]),
    (['--vcpus=4'], ['hw:cpu_priority=urgent'], ["'urgent'"]),
    (['--vcpus=4'], ['trait:HW_CPU_X86_AVX=requird'], ["'requird'"]),
    (['--vcpus=4', '--image-property=hw_cpu_policy=dedicate'], [],
     ["hw_cpu_policy is 'dedicate'"]),
    (['--vcpus=4', '--image-property=hw_numa_nodes=x'], [],
     ["hw_numa_nodes is 'x'"]),
    (['--vcpus=4', '--image-property=hw_numa_mem.1=x',
      '--image-property=hw_numa_mem.0=64'], [], ["hw_numa_mem.1 is 'x'"]),
    (['--vcpus=8'], ['resources:PCPU=', 'resources:VCPU=3'],
     ["resources:PCPU of the flavor is ''"]),
    (['--vcpus=8'], ['resources:PCPU=-5', 'resources:VCPU=13'],
     ["resources:PCPU of the flavor is '-5'", 'from 0 on']),
    (['--vcpus=8'], ['resources:PCPU=%d' % 2 ** 70, 'resources:VCPU=3'],
     ['%d and 3' % 2 ** 70, '8 vCPUs']),
    (['--vcpus=8'], ['resources:PCPU=2', 'resources:VCPU=7',
                     'hw:numa_nodes=2', 'hw:emulator_threads_policy=isolate'],
     ["hw:emulator_threads_policy of the flavor is 'isolate'", 'node 0']),
    (['--vcpus=0'], [], ["--vcpus is '0'", 'from 1 on']),
    (['--disk=-1'], [], ["--disk is '-1'", 'from 0 on']),
])
def test_refusal_is_one_sentence(run, arguments, properties, expected):
    status, out, err = run(*arguments, properties=properties)
    assert (1, '') == (status, out)
    assert 1 == len(err.splitlines())
    for text in expected:
        assert text in err
