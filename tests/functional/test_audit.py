# SPDX-License-Identifier: Apache-2.0


"""``nova-prio audit`` finds and repairs each fault of these tests."""

import collections
import contextlib
from unittest import mock

from nova.cmd import manage
from nova import context
from nova import objects
from oslo_db import exception as db_exception
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.admin.audit import allocation_audit
from nova_prio.admin.audit import finding
from nova_prio.admin.audit import pin_conflicts
from nova_prio.admin.audit import repairs
from nova_prio.admin.fleet import cloud_fleet
from nova_prio.admin.page import capacity_page
from nova_prio.cmd import audit as command
from nova_prio.cmd import report
from nova_prio.placement import allocations as allocations_api
from nova_prio.virt.libvirt import partitions
from tests import commands
from tests.functional import test_healing as healing


class Audit(healing.Drift):
    """Two mix hosts."""

    def setUp(self):
        super().setUp()
        self.start('mix2')

    def audit(self, *arguments, status=report.CLEAN):
        """Run the command; return its rows, or its error."""
        found, rows, output = commands.run('audit', *arguments)
        self.assertEqual(status, found, (rows, output))
        if rows is None:
            return output
        self.assertIn(output.splitlines()[-1].partition(':')[0], {
            report.CLEAN: ['There are no findings'],
            report.FOUND: ['There are findings', 'Nothing was changed'],
            report.FAILED: ['Not all hosts could be checked or repaired'],
            command.FIXED: ['All findings are repaired']}[status])
        return rows

    @contextlib.contextmanager
    def instance(self, server):
        """Yield the nova.objects.Instance of a server."""
        with context.target_cell(
                context.get_admin_context(),
                self.host_mappings['mix1'].cell_mapping) as cctxt:
            yield objects.Instance.get_by_uuid(
                cctxt, server['id'], expected_attrs=['numa_topology'])

    def end_guest(self, server):
        """End the guest of a server without Nova."""
        connection = self.computes['mix1'].driver._host.get_connection()
        connection.lookupByUUIDString(server['id']).destroy()

    def found(self, *arguments, status=report.FOUND):
        """Return the findings: a set of (host, kind of finding, consumer)."""
        return {(row['Host'], row['Finding'], row['Consumer'])
                for row in self.audit(*arguments, status=status)}

    def assert_repaired(self, expected):
        """Assert that --fix repairs the findings, and --dry-run does not."""
        self.assertEqual(expected, self.found())
        self.assertEqual(expected, self.found('--fix', '--dry-run'))
        self.assertEqual(expected, self.found())
        self.assertEqual(expected, self.found('--fix', status=command.FIXED))
        self.audit()
        self.audit('--fix')


class Clean(Audit):

    def test_audit_ignores_correct_allocations(self):
        """There are no findings on idle hosts, nor while instances move."""
        self.audit()
        servers = [*self.create_all(), self.create('low', from_volume=True)]
        rows = self.audit('--all')
        self.assertEqual(
            [('mix1', 'ok'), ('mix2', 'ok')],
            [(row['Host'], row['State']) for row in rows])
        needed = sum((collections.Counter(self.expected[server['id']]['mix1'])
                      for server in servers), collections.Counter())
        self.assertEqual(
            (finding.format_amounts(needed), finding.format_amounts(needed),
             'high=6 low=18 ordinary=8'),
            tuple(rows[0][name]
                  for name in ('Needed', 'Placement', 'Compute')))
        for server in servers[:3]:
            self.start_move(server, 'mix2')
        self.assertEqual(
            ['in motion', 'in motion'],
            [row['State'] for row in self.audit('--all')])
        _, _, output = commands.run('audit')
        self.assertIn('On 2 hosts, in-flight instances and migrations, '
                      'inventories and reports were not checked: mix1, '
                      'mix2.', output)
        self.revert(servers[0])
        self.confirm(servers[1])
        self.audit()
        self.host_down('mix2')
        self.act(servers[1], 'SHUTOFF', evacuate={'host': 'mix1'})
        self.audit()

    def test_audit_of_all_hosts_asks_placement_twice_for_each_host(self):
        """Traits and aggregates are read for all hosts at once."""
        self.create_all()
        urls = []
        get = allocations_api.get_json

        def get_and_note(client, url, *args, **kwargs):
            urls.append(url)
            return get(client, url, *args, **kwargs)

        with mock.patch.object(allocations_api, 'get_json', get_and_note):
            self.audit()
        for uuid in self.compute_rp_uuids['mix1'], self.compute_rp_uuids[
                'mix2']:
            self.assertEqual(
                ['allocations', 'inventories'],
                sorted(url.rpartition('/')[2] for url in urls if uuid in url))

    def test_offloaded_instance_does_not_count_on_its_host(self):
        """The kill of a nova-compute may leave the host in its record."""
        server = self.create('high')
        with self.instance(server) as instance:
            node = instance.compute_id
        self.act(server, 'SHELVED_OFFLOADED', shelve=None)
        expected = self.expected.pop(server['id'])
        with self.instance(server) as instance:
            instance.host = instance.node = 'mix1'
            instance.compute_id = node
            instance.save()
        # It gets the CPUs of the first one.
        other = self.create('high')
        self.audit()
        self.assertEqual([], list(pin_conflicts.find_warnings(
            context.get_admin_context())))
        with self.instance(server) as instance:
            self.assertEqual([other['id']], [
                each.uuid for each, _ in cloud_fleet._iterate_instances(
                    instance._context)])
        found, _ = capacity_page._read_instances(
            context.get_admin_context(), ['mix1'])
        self.assertEqual([other['id']], [each.uuid for each in found['mix1']])
        self.put(server, **expected['mix1'])
        self.assertEqual({('mix1', 'left_allocation', server['id'])},
                         self.found())
        # While it is unshelved, it counts again.
        with self.instance(server) as instance:
            instance.task_state = 'spawning'
            instance.save()
            self.assertEqual({server['id'], other['id']}, {
                each.uuid for each, _ in cloud_fleet._iterate_instances(
                    instance._context)})

    def test_unscheduled_and_busy_instances_are_not_found(self):
        objects.InstanceMapping(
            context.get_admin_context(), instance_uuid=uuids.new,
            project_id=uuids.project, cell_mapping=None).create()
        self.put({'id': uuids.new, 'host': 'mix1'}, VCPU=1)
        server = self.create('high')
        with self.instance(server) as instance:
            instance.task_state = 'rebooting'
            instance.save()
        self._delete_server_allocations(server['id'])
        self.audit('--fix')

    def test_fix_asks_on_a_terminal(self):
        """Each repair is logged."""
        server = self.create('high')
        self._delete_server_allocations(server['id'])
        for answer in 'n', 'y':
            with mock.patch('sys.stdin', commands.Terminal(answer + '\n')):
                self.found('--fix', '--dry-run')
                status, rows, said = commands.run('audit', '--fix')
            self.assertIn(
                'Check 2 hosts, and repair all findings? [y/N] ', said)
            if answer == 'n':
                self.assertEqual((report.FAILED, None), (status, rows))
                self.assertIn("Nothing was changed: the answer was 'n'", said)
        self.assertEqual(command.FIXED, status)
        self.assertIn(' Host mix1: repaired missing_allocation of %s.\n'
                      % server['id'], said)
        with mock.patch('sys.stdin', commands.Terminal('n\n')):
            self.audit('--fix', '--yes')
            self.audit()

    def test_wrong_arguments_are_refused(self):
        for arguments, words in (
                (['--dry-run'], '--dry-run is given without --fix'),
                (['--fix', '-c', 'Nonsense'],
                 "--column is 'Nonsense'; allowed are Host, Finding,"),
                (['--host', 'none'], "Host 'none' is not mapped to any cell; "
                 'allowed are names of compute hosts.')):
            self.assertIn(words, self.audit(*arguments, status=1))


class Allocations(Audit):

    def test_drifted_allocation_is_found_and_repaired(self):
        """Healing, which compares in the same way, tests all flavors."""
        drifted = self.create_all()
        self.drift(drifted)
        kinds = ('missing_allocation', 'wrong_class', 'wrong_amount')
        self.assert_repaired({
            ('mix1', kinds[number % 3], server['id'])
            for number, server in enumerate(drifted)})
        self.assert_allocations()

    def test_remedy_warns_of_heal_allocations_if_image_pins(self):
        """nova-manage heal_allocations would allocate VCPU."""
        image = self.image(hw_cpu_policy='dedicated')
        server = self.boot(self.plain, image_uuid=image, az='nova:mix1')
        self._delete_server_allocations(server['id'])
        row, = self.audit(status=report.FOUND)
        self.assertIn('"nova-manage placement heal_allocations" would ask '
                      'for VCPU', row['Remedy'])
        self.assertEqual(0, manage.PlacementCommands().heal_allocations(
            instance_uuid=server['id']))
        self.assertEqual(4, self.resources('mix1', of='usages')['VCPU'])
        self.assert_repaired({('mix1', 'wrong_class', server['id'])})
        self.assertEqual(4, self.resources('mix1', of='usages')['PCPU'])

    def test_unused_allocation_is_deleted(self):
        """The instance was deleted, moved or shelved, or the move ended."""
        servers = [self.create(flavor) for flavor in ('high', 'low', 'mixed')]
        deleted, moved, shelved = servers
        self.delete(deleted)
        self.start_move(moved, 'mix2')
        self.confirm(moved)
        self.act(shelved, 'SHELVED_OFFLOADED', shelve=None)
        self.audit()
        for uuid in (deleted['id'], uuids.unknown, shelved['id'],
                     moved['migration']):
            self.put({'id': uuid, 'host': 'mix1'}, VCPU=1, MEMORY_MB=1)
        self.put({**moved, 'host': 'mix1'}, VCPU=3, DISK_GB=1)
        self.assert_repaired({
            ('mix1', 'orphaned_allocation', deleted['id']),
            ('mix1', 'orphaned_allocation', uuids.unknown),
            ('mix1', 'left_allocation', shelved['id']),
            ('mix1', 'left_allocation', moved['migration']),
            ('mix1', 'left_allocation', moved['id'])})
        del self.expected[shelved['id']]
        self.assert_allocations()

    def test_allocation_of_failed_build_is_deleted(self):
        """nova-compute was killed during the claim."""
        server = self.create('high')
        self.change(server, host=None, vm_state='error')
        self.end_guest(server)
        # The first recount ends the lease, and the second reports that.
        for _ in range(2):
            self.update_host('mix1')
        self.assert_repaired({('mix1', 'left_allocation', server['id'])})
        self.expected.pop(server['id'])
        self.assert_allocations()

    def test_allocation_of_scheduled_instance_is_kept(self):
        """The allocation exists before a host builds or unshelves."""
        for values in ({'vm_state': 'building', 'task_state': 'scheduling'},
                       {'vm_state': 'building'},
                       {'vm_state': 'shelved_offloaded',
                        'task_state': 'unshelving'}):
            server = self.create('low')
            self.change(server, host=None, **values)
            # No host has a guest or a lease yet.
            self.end_guest(server)
            held = self.computes['mix1'].driver.priority_host.leases
            for each in held.get(server['id']):
                held.end(server['id'], each)
            self.update_host('mix1')
            self.audit('--fix')
            self.assert_allocations()

    def test_allocation_of_migration_of_deleted_instance_is_deleted(self):
        """An instance may be deleted during a live migration."""
        server = self.create('high')
        migration = objects.Migration(
            context.get_admin_context(), instance_uuid=server['id'],
            status='running', migration_type='live-migration',
            source_compute='mix1', dest_compute='mix2')
        migration.create()
        consumer = {'id': migration.uuid, 'host': 'mix1'}
        self.put(consumer, VCPU=1)
        self.audit()
        self._delete_server_allocations(migration.uuid)
        self.delete(server)
        self.put(consumer, VCPU=1)
        self.assert_repaired({('mix1', 'left_allocation', migration.uuid)})

    def test_allocation_of_other_service_is_kept(self):
        self.placement.put('/allocations/' + uuids.container, {
            'allocations': {self.compute_rp_uuids['mix1']: {
                'resources': {'VCPU': 1}}},
            'project_id': uuids.project, 'user_id': uuids.user,
            'consumer_generation': None, 'consumer_type': 'CONTAINER'},
            version='1.38')
        self.audit()
        self._delete_server_allocations(uuids.container)
        self.put({'id': uuids.container, 'host': 'mix1'}, VCPU=1)
        self.assert_repaired({
            ('mix1', 'orphaned_allocation', uuids.container)})

    def test_failed_repair_is_listed(self):
        server, other = self.create('high'), {'id': uuids.other,
                                              'host': 'mix1'}
        self.put(server, VCPU=2)
        self.put(other, PCPU=15)
        cell = objects.InstanceMapping(
            context.get_admin_context(), instance_uuid=uuids.other,
            project_id=uuids.project, cell_mapping=None)
        cell.create()
        row, = self.audit('--fix', status=report.FAILED)
        self.assertEqual(
            ('wrong_class', 'failed'), (row['Finding'], row['State']))
        self.assertIn('exceed the capacity', row['Remedy'])
        # The orphaned allocation is deleted first.
        cell.destroy()
        self.assert_repaired({('mix1', 'wrong_class', server['id']),
                              ('mix1', 'orphaned_allocation', uuids.other)})

    def test_allocation_of_unknown_owner_is_kept(self):
        """A cell or Placement does not tell the owner."""
        self.put({'id': uuids.unknown, 'host': 'mix1'}, VCPU=1)
        for broken in (
                mock.patch.object(objects.Migration, 'get_by_uuid',
                                  side_effect=db_exception.DBError('failed')),
                mock.patch.object(allocation_audit, '_TYPE_VERSION', '9.9')):
            with broken:
                row, = self.audit('--fix', status=report.FAILED)
            self.assertEqual('unread', row['Finding'])
            self.assertRegex(
                row['Remedy'], 'cell .* does not answer|with status 406')
        self.assert_repaired({('mix1', 'orphaned_allocation', uuids.unknown)})

    def test_instance_without_block_devices_is_repaired(self):
        """Nova may be deleting the instance."""
        server = self.create('high')
        self._delete_server_allocations(server['id'])
        with mock.patch.object(
                objects.BlockDeviceMappingList, 'bdms_by_instance_uuid',
                return_value={}):
            self.assert_repaired({('mix1', 'missing_allocation',
                                 server['id'])})

    def test_vcpu_of_pinned_instance_is_kept_on_host_without_pcpu(self):
        server = self.create('pinned')
        self.put(server, VCPU=1, MEMORY_MB=1)
        cctxt = context.get_admin_context()
        with self.instance(server) as instance:
            view = mock.Mock(
                context=cctxt, total_allocations={}, sharing=[],
                classes={'VCPU', 'MEMORY_MB'}, instances_at_rest=[
                    objects.Instance.get_by_uuid(
                        instance._context, server['id'],
                        expected_attrs=['flavor', 'system_metadata'])])
            self.assertEqual([], list(
                allocation_audit._check_instances(view, None)))

    def test_repair_is_retried_if_others_write(self):
        server = self.create('high')
        for number, status in (3, command.FIXED), (4, report.FAILED):
            self.drift([server])
            with self.conflicts(number):
                self.audit('--fix', status=status)
        self.assert_repaired({('mix1', 'missing_allocation', server['id'])})

    def test_allocation_that_is_used_again_is_kept(self):
        server = self.create('high')
        self.act(server, 'SHELVED_OFFLOADED', shelve=None)
        expected = self.expected.pop(server['id'])
        self.put(server, **expected['mix1'])
        found = {('mix1', 'left_allocation', server['id'])}
        self.assertEqual(found, self.found())
        stock = repairs.remove_allocations

        def unshelve_first(*args):
            self.act(server, unshelve={'host': 'mix1'})
            return stock(*args)

        with mock.patch.object(repairs, 'remove_allocations', unshelve_first):
            self.assertEqual(
                found, self.found('--fix', status=report.FAILED))
        self.expected[server['id']] = expected
        self.assert_allocations()
        self.audit()

    def test_disk_at_sharing_provider_is_counted(self):
        server = self.create('high')
        self.compute_rp_uuids['shared'] = self.share_disks()
        expected = self.expected[server['id']]
        disk = expected['mix1'].pop('DISK_GB')
        self.put(server, **expected['mix1'])
        self.put({**server, 'host': 'shared'}, DISK_GB=disk)
        self.audit()
        self.put({**server, 'host': 'shared'}, DISK_GB=disk + 1)
        self.assert_repaired({('mix1', 'wrong_amount', server['id'])})
        expected['shared'] = {'DISK_GB': disk}
        self.assert_allocations()


class Hosts(Audit):

    def change_provider(self, part, host='mix1', **values):
        """Change the inventories or the traits of a host in Placement."""
        url = '/resource_providers/%s/%s' % (
            self.compute_rp_uuids[host], part)
        found = self.placement.get(url, version='1.26').body
        if part == 'traits':
            found['traits'] = values['traits']
        for name, changes in (
                values.items() if part == 'inventories' else ()):
            found['inventories'][name].update(changes)
        answer = self.placement.put(url, found, version='1.26')
        self.assertEqual(200, answer.status, answer.body)

    def test_wrong_inventories_and_traits_are_repaired(self):
        self.create_all()
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')
        self.start_host('off1', cpus=4, shared='0-3', ratio=2.0)
        self.audit()
        before = {host: (self.resources(host), self.traits(host))
                  for host in self.computes}
        self.change_provider(
            'inventories', VCPU={'reserved': 0}, PCPU={'total': 17},
            MEMORY_MB={'allocation_ratio': 1.5})
        self.change_provider('inventories', 'mix2', VCPU={'max_unit': 3})
        self.change_provider('inventories', 'off1', VCPU={'total': 5})
        self.change_provider('traits', 'mix2', traits=[])
        self.change_provider('traits', 'off1', traits=[
            'CUSTOM_CPU_PRIORITY', 'CUSTOM_CPU_PRIORITY_MIX'])
        self.change_provider(
            'traits', 'stock1', traits=['CUSTOM_CPU_PRIORITY'])
        self.assert_repaired({
            *((host, 'wrong_inventory', '')
              for host in ('mix1', 'mix2', 'off1')),
            *((host, 'wrong_traits', '')
              for host in ('mix2', 'off1', 'stock1'))})
        priority_traits = {'CUSTOM_CPU_PRIORITY', 'CUSTOM_CPU_PRIORITY_MIX'}
        for host, (inventories, traits) in before.items():
            self.assertEqual(inventories, self.resources(host), host)
            self.assertEqual(priority_traits & set(traits),
                             priority_traits & set(self.traits(host)), host)

    def test_wrong_reports_are_found(self):
        self.create('low')
        for change, kind, words in (
                (lambda text: text.replace('"low_used": 3',
                                           '"low_used": 4'),
                 'old_report', 'high=0 low=4 ordinary=0'),
                (lambda text: text.replace('"3.0"', '"2.0"'),
                 'old_report', 'high=0 low=3 ordinary=0 ratio=2.0'),
                (lambda text: text[1:], 'unreadable_report',
                 'the report of the host cannot be read'),
                (lambda text: text.replace('"low_sellable": 56',
                                           '"low_sellable": 2'),
                 'oversold', 'low: 3 of 2 sold')):
            with self.record('mix1') as node:
                stock = node.stats
                changed = change(stock['nova_prio'])
                self.assertNotEqual(stock['nova_prio'], changed, kind)
                node.stats = {**stock, 'nova_prio': changed}
                node.save()
            row, = self.audit('--fix', status=report.FOUND)
            self.assertEqual(kind, row['Finding'])
            self.assertIn(words, row['Compute'])
            with self.record('mix1') as node:
                node.stats = stock
                node.save()
        self.audit()

    def test_orphan_guest_on_all_dedicated_cpus_is_found(self):
        """Nova does not know the guest, so it cannot reboot or move it."""
        connection = self.computes['mix1'].driver._host.get_connection()
        xml = partitions._PROBE_XML % (
            'kvm', 'vm-of-operator', uuids.foreign, '0-7,12-19')
        domain = connection.defineXML(xml)
        domain.XMLDesc = lambda flags: xml
        domain.create()
        self.update_host('mix1')
        row, = self.audit('--fix', status=report.FOUND)
        self.assertEqual(
            ('mix1', 'blocked_cpus', 'CPUs 0-7,12-19', 'vm-of-operator'),
            (row['Host'], row['Finding'], row['Compute'], row['Libvirt']))
        self.assertTrue(row['Remedy'].startswith(
            'Nova does not know the guests vm-of-operator: pin them'))
        _, rows, _ = commands.run('host', 'verify', 'mix1')
        self.assertEqual(
            [row['Remedy']],
            [line['Remedy'] for line in rows if line['Libvirt']])
        domain.destroy()
        self.update_host('mix1')
        self.audit()

    def test_old_report_of_a_host_that_is_down(self):
        """No next update corrects the report."""
        self.create('low')
        with self.record('mix1') as node:
            text = node.stats['nova_prio'].replace(
                '"low_used": 3', '"low_used": 4')
            node.stats = {**node.stats, 'nova_prio': text}
            node.save()
        row, = self.audit(status=report.FOUND)
        self.assertEqual(finding.REMEDIES['old_report'], row['Remedy'])
        service, = self.api.get_services(host='mix1', binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        row, = self.audit(status=report.FOUND)
        self.assertEqual(
            'nova-compute is down, and its report is out of date: start it. ' +
            finding.REMEDIES['old_report'], row['Remedy'])

    def test_pins_to_used_and_shared_cpus_are_found(self):
        high, pinned = self.create('high'), self.create('pinned')
        with self.instance(high) as instance:
            taken = min(instance.numa_topology.cells[0].cpu_pinning.values())
        with self.instance(pinned) as instance:
            cell, = instance.numa_topology.cells
            cell.cpu_pinning = {0: taken}
            instance.save()
        rows = self.audit('--fix', status=report.FOUND)
        first, second = sorted((high['id'], pinned['id']))
        self.assertEqual(
            [(first, 'CPUs %d, with %s' % (taken, second))],
            [(row['Consumer'], row['Compute']) for row in rows
             if row['Finding'] == 'pin_conflict'])
        with self.instance(pinned) as instance:
            cell, = instance.numa_topology.cells
            cell.cpu_pinning = {0: 8}
            instance.save()
        row, = self.audit('--fix', status=report.FOUND)
        self.assertEqual(
            ('cpu_outside', pinned['id'], 'CPUs 0-7,12-19', 'CPUs 8'),
            tuple(row[name] for name in (
                'Finding', 'Consumer', 'Needed', 'Compute')))

    def test_unreadable_host_does_not_end_the_audit(self):
        server = self.create('high')
        self._delete_server_allocations(server['id'])
        self.placement.delete(
            '/resource_providers/' + self.compute_rp_uuids['mix2'])
        rows = self.audit('--fix', status=report.FAILED)
        self.assertEqual(
            [('mix1', 'missing_allocation', 'fixed'),
             ('mix2', 'unread', 'failed')],
            [(row['Host'], row['Finding'], row['State']) for row in rows])
        self.assertIn('no resource provider for the host', rows[1]['Remedy'])
        with mock.patch('nova_prio.admin.audit.host_audit.check',
                        side_effect=AttributeError('new')):
            row, _ = self.audit(status=report.FAILED)
        self.assertIn('AttributeError: new. Correct that', row['Remedy'])
        with mock.patch.object(
                objects.ComputeNodeList, 'get_by_pagination',
                side_effect=db_exception.DBConnectionError('failed')):
            row, = self.audit(status=report.FAILED)
        self.assertEqual('unread', row['Finding'])
        self.assertIn('cell', row['Host'])
