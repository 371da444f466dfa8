# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio audit`` if Placement or libvirt does not answer."""

import json
import subprocess
import sys

import pytest

from nova_prio.cmd import main
from nova_prio.compat import contract
from nova_prio.virt import driver_alias


def audit(path, *arguments):
    """Run the command with a nova.conf; return the CompletedProcess."""
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.main',
         'audit', '--config-file', str(path), '-f', 'json', *arguments],
        capture_output=True, text=True)


COMPUTE = '[DEFAULT]\ncompute_driver = %s\n' % driver_alias.DRIVER


@pytest.mark.parametrize('text, arguments, expected', [
    ('', [], 'There is nothing to audit: [api_database] connection is not '
     "set, and [DEFAULT] compute_driver is 'None'"),
    (COMPUTE + '[libvirt]\nconnection_uri = nonsense:///\n', [],
     'Run this command on the compute host, as a user who may connect to '
     'libvirt.'),
    (COMPUTE, ['--host', 'none'],
     "HOST 'none' cannot be checked from this host, '"),
    (COMPUTE, ['--fix'],
     '--fix is given, but [api_database] connection is not set'),
    ('[api_database]\nconnection = nonsense\n', [],
     "Nova's database cannot be read: Could not parse SQLAlchemy URL"),
])
def test_error_names_the_missing_service(tmp_path, text, arguments, expected):
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    done = audit(path, *arguments)
    assert (1, '') == (done.returncode, done.stdout)
    assert expected in done.stderr.splitlines()[-1]


@pytest.mark.parametrize('options', ['', '[placement]\n'
                                     'auth_type = admin_token\ntoken = t\n'
                                     'endpoint = http://127.0.0.1:1\n'])
def test_missing_placement_is_reported(nova_conf, options):
    nova_conf.write_text(nova_conf.read_text() + options)
    done = audit(nova_conf)
    # Some releases of Nova ask Placement for its version at once, others ask
    # when they audit a host.
    if done.returncode:
        assert 1 == done.returncode
        line = done.stderr.splitlines()[-1]
        assert line.startswith('Placement does not answer: '), line
        assert line.endswith(' Check [placement] in nova.conf.')
    else:
        assert [] == json.loads(done.stdout)


def test_unsupported_nova_is_refused(monkeypatch, capsys):
    """A command must not run with a Nova that lacks an interface."""
    monkeypatch.setattr(
        contract, 'find_mismatches', lambda service: ['x does not exist'])
    for command in ['audit'], ['capacity', 'show']:
        assert 1 == main.main(command)
        out, err = capsys.readouterr()
        assert '' == out
        line, = err.splitlines()
        assert ('does not match this package: x does not exist. Install a '
                'release of nova-prio') in line
