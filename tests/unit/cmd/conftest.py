# SPDX-License-Identifier: Apache-2.0

"""Fixtures: databases that nova-manage creates."""

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
def _databases(tmp_path_factory, nova_manage):
    """Return the directory of an API database and a cell database."""
    directory = tmp_path_factory.mktemp('databases')
    path = directory / 'nova.conf'
    path.write_text(NOVA_CONF % {'api': directory, 'cell': directory})
    for arguments in ('api_db sync', 'db sync --local_cell',
                      'cell_v2 create_cell'):
        nova_manage(path, *arguments.split())
    return directory


@pytest.fixture
def nova_conf(tmp_path, _databases):
    """Return the path of the nova.conf of a cloud without hosts.

    Each test has its own API database. All tests share the cell.
    """
    shutil.copy(_databases / 'api.db', tmp_path)
    path = tmp_path / 'nova.conf'
    path.write_text(NOVA_CONF % {'api': tmp_path, 'cell': _databases})
    return path
