# SPDX-License-Identifier: Apache-2.0

"""The cloud of cold moves from one cell of Nova to another."""

import pkgutil

import nova.conf
from nova import context
from nova import objects

from nova_prio.objects import migration_states
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

    def delete_server(self, server):
        """Delete a server, twice if the first delete has failed.

        If two deletes of a server that has moved to another cell run at once,
        both may fail.
        """
        self.request_delete(server)
        self.wait_until_rest(server)
        if not self.is_gone(server):
            super().delete_server(server)

    def recover(self):
        """Also delete the copies that Nova has left in another cell.

        Nova does not end a confirmation or a revert whose nova-compute was
        killed: its log says that a copy may be left, and can be cleaned up.
        """
        super().recover()
        for host in self.HOSTS:
            with context.target_cell(context.get_admin_context(),
                                     self._get_cell(host)) as cctxt:
                for copy in objects.InstanceList.get_by_filters(
                        cctxt, {'deleted': False, 'hidden': True}):
                    self._delete_copy(copy)
        self.repair_allocations()

    def _delete_copy(self, copy):
        """Delete the copy of an instance unless it awaits a confirmation."""
        server = {'id': copy.uuid}
        if not self.is_gone(server) and self.api.get_server(
                copy.uuid)['status'] == 'VERIFY_RESIZE':
            return
        for migration in objects.MigrationList.get_by_filters(
                copy._context, {'instance_uuid': copy.uuid}):
            if migration_states.is_open(migration):
                migration.status = 'error'
                migration.save()
        copy.destroy(hard_delete=True)
