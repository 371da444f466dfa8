# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity show``."""

import json
import subprocess
import sys

import pytest


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
