# SPDX-License-Identifier: Apache-2.0


"""``nova-prio audit`` on a machine of its own, without any service."""

import json
import subprocess
import sys

import pytest

from nova_prio.cmd import main
from nova_prio.compat import contract
from nova_prio.virt import driver_alias


def audit(path, *arguments):
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.main',
         'audit', '--config-file', str(path), '-f', 'json', *arguments],
        capture_output=True, text=True)


@pytest.mark.parametrize('text, words', [
    ('', 'There is nothing to audit: [api_database] connection is not set, '
     "and [DEFAULT] compute_driver is 'None'"),
    ('[DEFAULT]\ncompute_driver = %s\n[libvirt]\n'
     'connection_uri = nonsense:///\n' % driver_alias.DRIVER,
     'Run this command on the compute host, as a user who may connect to '
     'libvirt.'),
    ('[DEFAULT]\ncompute_driver = %s\n' % driver_alias.DRIVER,
     "HOST 'none' cannot be checked from this host, '"),
    ('[DEFAULT]\ncompute_driver = %s\n' % driver_alias.DRIVER,
     '--fix is given, but [api_database] connection is not set'),
    ('[api_database]\nconnection = nonsense\n',
     "Nova's database cannot be read: Could not parse SQLAlchemy URL"),
])
def test_error_names_the_missing_service(tmp_path, text, words):
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    done = audit(path, *['--host', 'none'] * ("'none'" in words),
                 *['--fix'] * ('--fix' in words))
    assert (1, '') == (done.returncode, done.stdout)
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize('options', ['', '[placement]\n'
                                     'auth_type = admin_token\ntoken = t\n'
                                     'endpoint = http://127.0.0.1:1\n'])
def test_error_without_placement(nova_conf, options):
    nova_conf.write_text(nova_conf.read_text() + options)
    done = audit(nova_conf)
    # Some releases ask for its version at once, some when there is a host.
    if done.returncode:
        assert 1 == done.returncode
        line = done.stderr.splitlines()[-1]
        assert line.startswith('Placement does not answer: '), line
        assert line.endswith(' Check [placement] in nova.conf.')
    else:
        assert [] == json.loads(done.stdout)


def test_unsupported_nova_is_refused(monkeypatch, capsys):
    """The commands refuse a Nova that lacks what they read."""
    monkeypatch.setattr(contract, 'ALL', [contract.Contract(
        contract.COMMANDS, 'x', lambda: 'x does not exist')])
    for command in ['audit'], ['capacity', 'show']:
        assert 1 == main.main(command)
        out, err = capsys.readouterr()
        assert '' == out
        line, = err.splitlines()
        assert ('does not match this package: x does not exist. Install a '
                'release of nova-prio') in line
