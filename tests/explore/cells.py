# SPDX-License-Identifier: Apache-2.0

"""The cloud of cold moves from one cell of Nova to another."""

import pkgutil

import nova.conf
from nova import context

from tests.explore import cloud

CONF = nova.conf.CONF
# Nova's tests replace it.
_TARGET_CELL = context.target_cell


class ExploredCloudWithCells(cloud.ExploredCloud):
    """Two hosts, each in a cell of its own."""

    NUMBER_OF_CELLS = 2

    def setUp(self):
        super().setUp()
        self.allow_moves_between_cells()

    def _setup_cells(self):
        """Let each service use the database of its own cell.

        In Nova's tests, all threads of a process use one cell at a time: a
        disturbance would wait for the operation that it disturbs.
        """
        super()._setup_cells()
        create = pkgutil.resolve_name(
            'nova.db.main.api.create_context_manager')

        def get_context_manager(found):
            connection = getattr(found, 'db_connection', None)
            if connection is not None:
                return connection
            return create(self._get_cell(CONF.host).database_connection)

        self.stub_out('nova.db.main.api.get_context_manager',
                      get_context_manager)
        self.stub_out('nova.context.target_cell', _TARGET_CELL)

    def _get_cell(self, host):
        """Return the cell of a host, or that of the other services."""
        return self.cell_mappings[
            'cell2' if host == self.HOSTS[1] else 'cell1']

    def start_seed_host(self, name, **kwargs):
        """Start a host in its cell."""
        super().start_seed_host(
            name, nova_cell=self._get_cell(name).name, **kwargs)
