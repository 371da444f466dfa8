# SPDX-License-Identifier: Apache-2.0

"""An open cold move ends if its instance has gone another way.

Nova allows that if nova-compute was killed during the move, or if an operator
has reset the state of an instance whose move awaits its confirmation.
"""

from nova import context
from nova import objects

from tests import commands
from tests.functional import base
from tests.functional import test_unfinished_migrations as unfinished

_HOSTS = 'mix1', 'mix2', 'mix3'


class KilledMove(unfinished.KilledMoves):
    """A move from mix1 to mix2 whose source is killed before it began."""

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.flags(shelved_offload_time=0)
        self.server = self.create('high', host='mix1')
        self.begin()
        self.moved = self.migration_of(self.server)
        self.start('mix3')

    def begin(self):
        step = base.leave_unfinished('resize_migrating', 'migrating')
        self.kill(self.server, unfinished.COLD, '_resize_instance', step,
                  'migrating')

    def evacuate(self, source, destination):
        """Evacuate the server; its old host starts again."""
        self.host_down(source)
        self.act(self.server, 'SHUTOFF', evacuate={'host': destination})
        self.host_up(source)
        self.restart_compute_service(source)

    def shelve(self, destination):
        """Shelve the server, and unshelve it on a host."""
        self.act(self.server, 'SHELVED_OFFLOADED', shelve=None)
        self.act(self.server, unshelve={'host': destination})

    def assert_ends(self, host):
        """Assert that the leases end, and that the audit ends the move.

        :param host: name of the host on which the server is
        """
        for _ in range(3):
            for name in _HOSTS:
                self.update_host(name)
        self.assertEqual(host, self.host_of(self.server))
        self.assertEqual([host], [
            name for name in _HOSTS if self.computes[
                name].driver.priority_host.leases.get(self.server['id'])])
        _, rows, _ = commands.run('audit', '--fix')
        self.assertIn(('unfinished_migration', self.moved.uuid, 'fixed'), [
            (row['Finding'], row['Consumer'], row['State']) for row in rows])
        # The open migration has hidden what else is to be repaired.
        commands.run('audit', '--fix')
        self.audit()
        ended = objects.Migration.get_by_id(
            context.get_admin_context(), self.moved.id)
        self.assertEqual('error', ended.status)
        self.assertEqual({}, self._get_allocations_by_server_uuid(
            self.moved.uuid))
        self.assertEqual({self.compute_rp_uuids[host]}, set(
            self._get_allocations_by_server_uuid(self.server['id'])))

    def test_way_to_other_host_of_move(self):
        self.evacuate('mix1', 'mix2')
        self.assert_ends('mix2')

    def test_evacuation_to_third_host(self):
        self.evacuate(self.host_of(self.server), 'mix3')
        self.assert_ends('mix3')

    def test_live_migration_to_third_host(self):
        self.live_migrate_to(self.server['id'], 'mix3')
        self.assert_ends('mix3')

    def test_unshelve_on_third_host(self):
        self.shelve('mix3')
        self.assert_ends('mix3')


class UnconfirmedMove(KilledMove):
    """A move that awaits its confirmation; the server has a reset state."""

    def begin(self):
        larger = self._create_flavor(
            vcpu=4, memory_mb=256, disk=3, ephemeral=1, swap=1025,
            extra_spec={'hw:cpu_priority': 'high'})
        self.act(self.server, 'VERIFY_RESIZE', resize={'flavorRef': larger})
        # The fake libvirt of this test does not shut it off.
        self.end_guest(self.server)
        self.reset_state(self.server)

    def test_way_to_other_host_of_move(self):
        self.shelve('mix1')
        own = self.get_resources()
        self.assertEqual(4, own['PCPU'])
        commands.run('audit', '--fix')
        self.assertEqual('error', self.migration_of(self.server).status)
        # Not those that the migration had, which are of the old flavor.
        self.assertEqual(own, self.get_resources())

    def get_resources(self):
        """Return the allocation of the server: resource class -> amount."""
        allocation, = self._get_allocations_by_server_uuid(
            self.server['id']).values()
        return allocation['resources']
