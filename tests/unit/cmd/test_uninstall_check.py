# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio uninstall-check``, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from nova_prio.admin import uninstall
from nova_prio.cmd import report as command


def check(*paths, status=command.FAILED, **environment):
    """Run the command with files or directories of configuration.

    :returns: (rows, last line)
    """
    arguments = []
    for path in paths:
        name = '--config-dir' if path.is_dir() else '--config-file'
        arguments.append('%s=%s' % (name, path))
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.main',
         'uninstall-check', '-f', 'json', *arguments],
        capture_output=True, text=True, env=os.environ | environment)
    assert status == done.returncode, done.stderr
    assert 'Traceback' not in done.stderr, done.stderr
    return (json.loads(done.stdout or 'null'), done.stderr.splitlines()[-1])


def test_each_file_is_checked(nova_conf, tmp_path):
    """A later file does not override the findings in an earlier file."""
    compute = tmp_path / 'compute.conf'
    compute.write_text('[DEFAULT]\ncompute_driver = '
                       'prio.PriorityLibvirtDriver\n')
    other = tmp_path / 'other.conf'
    other.write_text('[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n')
    rows, last_line = check(nova_conf, compute, other)
    assert [(uninstall.OPTION, str(compute)),
            (uninstall.UNREAD, 'Placement')] == [
        (row['Kind'], row['Name']) for row in rows]
    assert last_line.startswith(
        'Not all could be checked (option 1, unread 1).')


def test_later_file_or_directory_decides(nova_conf, tmp_path):
    """The files of a directory count, in the order of the command line."""
    directory = tmp_path / 'nova.conf.d'
    directory.mkdir()
    drop_in = directory / 'prio.conf'
    drop_in.write_text('[nova_prio]\nenabled = true\n'
                       '[api_database]\nconnection =\n')
    (directory / 'prio.conf.old').write_text('[nova_prio]\nenabled = true\n')
    option = uninstall.OPTION, str(drop_in)
    for paths, unread in (((nova_conf, directory), 'databases'),
                          ((directory, nova_conf), 'Placement')):
        rows, _ = check(*paths)
        assert [option, (uninstall.UNREAD, unread)] == [
            (row['Kind'], row['Name']) for row in rows]


def test_default_files_and_directories_are_checked(tmp_path):
    """Debian's unit of nova-compute reads all of these files."""
    paths = []
    for name in ('nova.conf', 'nova-compute.conf',
                 'nova.conf.d/nova-compute.conf',
                 'nova-compute.conf.d/other.conf'):
        path = tmp_path / '.nova' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('[nova_prio]\nenabled = true\n')
        paths.append(str(path))
    rows, _last_line = check(HOME=str(tmp_path))
    assert sorted(paths) == sorted(
        row['Name'] for row in rows if row['Kind'] == uninstall.OPTION)
    # nova-compute reads its default directories beside the given file.
    given = tmp_path / 'given.conf'
    given.write_text('')
    rows, _last_line = check(given, HOME=str(tmp_path))
    assert sorted(paths[2:]) == sorted(
        row['Name'] for row in rows if row['Kind'] == uninstall.OPTION)


def test_missing_password_of_placement_is_reported(nova_conf):
    with nova_conf.open('a') as file:
        file.write('[placement]\nauth_type = password\nusername = nova\n'
                   'auth_url = http://127.0.0.1:1/v3\n')
    rows, _last_line = check(nova_conf)
    assert [('password is a required attribute.', 'Check Placement and '
             '[placement] in nova.conf, and run this again.')] == [
        (row['Left'], row['Remedy']) for row in rows]


def test_compute_host_checks_only_options(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[DEFAULT]\ncpu_priority_mix_enable = true\n')
    rows, _last_line = check(path)
    assert [(str(path), '[DEFAULT] cpu_priority_mix_enable = true'),
            ('databases', '[api_database] connection is not set, as on a '
             'compute host: only options were checked.')] == [
        (row['Name'], row['Left']) for row in rows]


@pytest.mark.parametrize('text, expected', [
    ('nonsense\n', 'The configuration of Nova cannot be read: '),
    ('[api_database]\nconnection = nonsense\n',
     "Nova's database cannot be read: Could not parse SQLAlchemy URL"),
])
def test_unreadable_configuration_is_reported(tmp_path, text, expected):
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    rows, last_line = check(path)
    assert rows is None
    assert last_line.startswith(expected)
