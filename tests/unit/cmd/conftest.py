# SPDX-License-Identifier: Apache-2.0

"""Databases as nova-manage makes them."""

import pathlib
import shutil
import subprocess
import sys

import pytest

NOVA_CONF = """\
[DEFAULT]
transport_url = fake:
[api_database]
connection = sqlite:///%(api)s/api.db
[database]
connection = sqlite:///%(cell)s/cell.db
"""


@pytest.fixture(scope='session')
def nova_manage():
    """Return a function that runs nova-manage with a nova.conf."""
    def run(path, *arguments):
        subprocess.run(
            [pathlib.Path(sys.executable).with_name('nova-manage'),
             '--config-file', path, *arguments],
            check=True, capture_output=True)
    return run


@pytest.fixture(scope='session')
def _made(tmp_path_factory, nova_manage):
    directory = tmp_path_factory.mktemp('databases')
    path = directory / 'nova.conf'
    path.write_text(NOVA_CONF % {'api': directory, 'cell': directory})
    for arguments in ('api_db sync', 'db sync --local_cell',
                      'cell_v2 create_cell'):
        nova_manage(path, *arguments.split())
    return directory


@pytest.fixture
def nova_conf(tmp_path, _made):
    """Return the nova.conf of a cloud without hosts.

    The API database is the test's own, its cell is shared.
    """
    shutil.copy(_made / 'api.db', tmp_path)
    path = tmp_path / 'nova.conf'
    path.write_text(NOVA_CONF % {'api': tmp_path, 'cell': _made})
    return path
