# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio capacity solve`` and ``... show``."""

import json
import subprocess
import sys

import pytest

from nova_prio.cmd import main

EXAMPLE = {'dedicated': 8, 'shared': 4, 'ratio': 2.0, 'mix': True,
           'high_vcpus': 8, 'low_vcpus': 16, 'ordinary_vcpus': 8,
           'overall_ratio': 2.0}


@pytest.fixture
def run(capsys):
    """Return a function that runs ``capacity solve``.

    The function returns (exit status, standard output, standard error).
    """

    def capacity_solve(*arguments):
        status = main.main(['capacity', 'solve', *arguments])
        return status, *capsys.readouterr()

    return capacity_solve


@pytest.mark.parametrize('arguments', [
    ['--dedicated=8', '--shared=4', '--ratio=2'],
    ['--dedicated=8', '--shared=4', '--low-vcpus=16'],
    ['--dedicated=8', '--ratio=2', '--low-vcpus=16'],
    ['--shared=4', '--ratio=2', '--low-vcpus=16'],
    ['--dedicated=8', '--shared=4', '--overall-ratio=2.0'],
])
def test_solve_gives_the_example_of_the_design(run, arguments):
    status, out, _err = run('-f', 'json', *arguments)
    assert (0, EXAMPLE) == (status, json.loads(out))


def test_solve_without_mix(run):
    status, out, _err = run('--dedicated=8', '--shared=4', '--ratio=2',
                            '--no-mix', '-f', 'json')
    assert (0, {**EXAMPLE, 'mix': False, 'low_vcpus': 8,
                'overall_ratio': 1.3333}) == (status, json.loads(out))


@pytest.mark.parametrize('arguments, expected', [
    (['--dedicated=8'],
     '--shared and --ratio are given, without --low-vcpus or --overall-'),
    (['--dedicated=8', '--shared=4', '--ratio=2', '--low-vcpus=3'],
     '--ratio are given, with --low-vcpus or --overall-ratio; allowed'),
    (['--dedicated=0', '--shared=4', '--ratio=2'],
     "--dedicated is '0'; allowed are whole numbers from 1 to 4096."),
    (['--dedicated=-1', '--shared=4', '--ratio=2', '--no-mix'],
     "--dedicated is '-1'; allowed are whole numbers from 0 to 4096."),
    (['--dedicated=8', '--shared=4', '--low-vcpus=0'],
     "--low-vcpus is '0'; allowed are whole numbers from 1 to"),
    (['--dedicated=8', '--shared=4', '--ratio=two'],
     "--ratio is 'two'; allowed are numbers from 0 to 1000."),
    (['--dedicated=8', '--shared=4', '--overall-ratio=1001'],
     "--overall-ratio is '1001'; allowed are numbers from 0 to 1000."),
    (['--dedicated=8', '--shared=4', '--ratio=0.2'],
     'The ratio 0.2 leaves no sellable low-priority vCPU'),
    (['--shared=4', '--ratio=1', '--low-vcpus=5'],
     'No number of dedicated CPUs up to 4096 gives 5'),
])
def test_solve_refuses_wrong_arguments(run, arguments, expected):
    status, out, err = run(*arguments)
    assert (1, '') == (status, out)
    line, = err.splitlines()
    assert expected in line


@pytest.mark.parametrize('text, expected', [
    (None, 'The configuration of Nova cannot be read: Failed to find some '),
    ('', "Nova's database cannot be read: No sql_connection"),
    ('[api_database]\nmax_pool_size = x\n',
     'The configuration of Nova cannot be read: Value for option max_pool'),
])
def test_show_without_databases_fails(tmp_path, text, expected):
    path = tmp_path / 'nova.conf'
    if text is not None:
        path.write_text(text)
    done = show(path)
    assert (1, '') == (done.returncode, done.stdout)
    assert expected in done.stderr.splitlines()[-1]


def test_show_of_cloud_without_hosts_is_empty(nova_conf):
    done = show(nova_conf)
    assert (0, []) == (done.returncode, json.loads(done.stdout)), done.stderr


def show(path):
    """Run ``capacity show``; return the CompletedProcess."""
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.main',
         'capacity', 'show', '--config-file', str(path), '-f', 'json'],
        capture_output=True, text=True)
