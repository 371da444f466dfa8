# SPDX-License-Identifier: Apache-2.0


"""``nova-prio uninstall-check`` on a machine of its own."""

import json
import subprocess
import sys

import pytest

from nova_prio.admin import uninstall
from nova_prio.cmd import report as command


def check(*paths, status=command.FAILED):
    """Run the command with these files; returns (rows, its last line)."""
    arguments = [word for path in paths
                 for word in ('--config-file', str(path))]
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.main',
         'uninstall-check', '-f', 'json', *arguments],
        capture_output=True, text=True)
    assert status == done.returncode, done.stderr
    assert 'Traceback' not in done.stderr, done.stderr
    return (json.loads(done.stdout or 'null'), done.stderr.splitlines()[-1])


def test_each_file_is_checked(nova_conf, tmp_path):
    """A later file does not hide an earlier one; Placement is missing."""
    compute = tmp_path / 'compute.conf'
    compute.write_text('[DEFAULT]\ncompute_driver = '
                       'prio.PriorityLibvirtDriver\n')
    other = tmp_path / 'other.conf'
    other.write_text('[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n')
    rows, said = check(nova_conf, compute, other)
    assert [(uninstall.OPTION, str(compute)),
            (uninstall.UNREAD, 'Placement')] == [
        (row['Kind'], row['Name']) for row in rows]
    assert said.startswith('Not all could be checked (option 1, unread 1).')


def test_compute_host_checks_only_options(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[DEFAULT]\ncpu_priority_mix_enable = true\n')
    rows, _said = check(path)
    assert [(str(path), '[DEFAULT] cpu_priority_mix_enable = true'),
            ('databases', '[api_database] connection is not set, as on a '
             'compute host: only options were checked.')] == [
        (row['Name'], row['Left']) for row in rows]


@pytest.mark.parametrize('text, words', [
    ('nonsense\n', 'The configuration of Nova cannot be read: '),
    ('[api_database]\nconnection = nonsense\n',
     "Nova's database cannot be read: Could not parse SQLAlchemy URL"),
])
def test_unreadable_configuration_is_reported(tmp_path, text, words):
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    rows, said = check(path)
    assert rows is None
    assert said.startswith(words)
