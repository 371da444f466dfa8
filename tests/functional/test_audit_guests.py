# SPDX-License-Identifier: Apache-2.0


"""``nova-prio audit`` compares the guests with their expected state."""

from unittest import mock

from lxml import etree
from nova.virt import hardware
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.admin.audit import guest_audit
from nova_prio.cmd import report
from nova_prio.compat import contract
from nova_prio.virt import demand
from tests.functional import test_audit


class Guests(test_audit.Audit):
    """Guests that run with the domain XML of the driver."""

    def setUp(self):
        super().setUp()
        self.servers = {kind: self.create(kind) for kind in (
            'high', 'low', 'low in both cells', 'ordinary', 'pinned',
            'mixed')}
        self.stock = {kind: self.guest_xml(server['id'])
                      for kind, server in self.servers.items()}
        self.running = dict(self.stock)

    def read(self, conf):
        connection = self.computes['mix1'].driver._host.get_connection()
        return (guest_audit.GuestHost.from_libvirt(
                    conf, connection.getCapabilities()),
                guest_audit.select_nova_guests(self.running.values()))

    def audit(self, *arguments, database='sqlite://', **kwargs):
        """Run the command on the first host."""
        with (self.host_conf('mix1'),
              mock.patch.object(guest_audit, 'read_guests', self.read)):
            self.flags(connection=database, group='api_database')
            return super().audit(*arguments, **kwargs)

    def edit(self, kind, xpath, **attributes):
        """Change the domain XML of a guest: attributes, or the text."""
        domain = etree.fromstring(self.running[kind])
        nodes = domain.xpath(xpath)
        self.assertTrue(nodes)
        for node in nodes:
            if 'text' in attributes:
                node.text = attributes['text']
            else:
                node.attrib.update(attributes)
        self.running[kind] = etree.tostring(domain, encoding='unicode')

    def assert_said(self, expected, **kwargs):
        """Assert the findings, and that --fix does not repair them."""
        arguments = [] if 'database' in kwargs else ['--fix']
        self.assertEqual(
            {(kind, self.servers[name]['id'], needed, running)
             for kind, name, needed, running in expected},
            {tuple(row[name] for name in (
                'Finding', 'Consumer', 'Needed', 'Libvirt'))
             for row in self.audit(
                 *arguments, status=report.FOUND, **kwargs)})

    def test_each_wrong_guest_is_found(self):
        """Each part edits the domain XML of correct guests."""
        for part in (self._check_correct_guests, self._check_options_alone,
                     self._check_cpus, self._check_partitions,
                     self._check_pins, self._check_orphan,
                     self._check_emulator_threads):
            self.running = dict(self.stock)
            part()

    def _check_correct_guests(self):
        for database in 'sqlite://', None:
            self.audit(database=database)
            mix1, *_ = self.audit('--all', database=database)
            self.assertEqual(('mix1', 'floating=14 pinned=4', 'ok'), tuple(
                mix1[name] for name in ('Host', 'Libvirt', 'State')))

    def _check_options_alone(self):
        """Without databases, the audit compares guests with the options."""
        self.edit('low', '//vcpu', cpuset='8-11,20-23')
        self.assert_said({('old_cpuset', 'low', 'CPUs 0-23',
                           'CPUs 8-11,20-23')}, database=None)
        self.assertIn("HOST 'mix2' cannot be checked from this host, 'mix1'",
                      self.audit('--host', 'mix2', database=None, status=1))
        options = self._host_options['mix1']
        driver = options[None, 'compute_driver']
        options[None, 'compute_driver'] = None
        self.assertIn('There is nothing to audit',
                      self.audit(database=None, status=1))
        options[None, 'compute_driver'] = driver

    def _check_cpus(self):
        """Floating guests have wrong CPUs."""
        for kind, xpath, changed, needed, found in (
                ('low', '//vcpu', '8-11,20-23', '0-23', '8-11,20-23'),
                ('low', '//emulatorpin', '0-23', '8-11,20-23', '0-23'),
                ('low in both cells', '//vcpupin[@vcpu="0"]', '8-11', '0-11',
                 '8-11'),
                ('ordinary', '//vcpu', '7-11', '8-11', '7-11'),
                ('mixed', '//vcpupin[@vcpu="2"]', '7-11', '8-11', '7-11')):
            self.edit(kind, xpath, cpuset=changed)
            self.assert_said({('old_cpuset', kind, 'CPUs ' + needed,
                               'CPUs ' + found)})
            self.running = dict(self.stock)
        self.running['low'] = self.stock['low'].replace('cpuset="0-23"', '')
        self.assert_said({('old_cpuset', 'low', 'CPUs 0-23', 'all CPUs')})

    def _check_emulator_threads(self):
        """Emulator threads of low guests are outside of their set."""
        self._host_options['mix1']['nova_prio', 'low_emulator_set'] = '8'
        self.assert_said(
            {('old_cpuset', 'low', 'CPUs 8', 'CPUs 8-11,20-23'),
             ('old_cpuset', 'low in both cells', 'CPUs 8', 'CPUs 8-11,20-23')})
        for kind in 'low', 'low in both cells':
            for xpath in '//emulatorpin', '//iothreadpin':
                if self.running[kind].find(xpath[2:]) > 0:
                    self.edit(kind, xpath, cpuset='8')
        self.audit()
        self._host_options['mix1']['nova_prio', 'low_emulator_set'] = '12'
        self.assert_said(
            {('old_cpuset', 'low', 'CPUs 12', 'CPUs 8'),
             ('old_cpuset', 'low in both cells', 'CPUs 12', 'CPUs 8')})

    def _check_partitions(self):
        self.edit('low', '//partition', text='/high_prio_machine')
        self.edit('high', '//partition', text='/machine')
        self.running['ordinary'] = self.stock['ordinary'].replace(
            '</domain>', '<resource><partition>/low_prio_machine</partition>'
            '</resource></domain>')
        expected = {
            ('wrong_partition', 'low', '/low_prio_machine',
             '/high_prio_machine'),
            ('wrong_partition', 'high', '/high_prio_machine', '/machine'),
            ('wrong_partition', 'ordinary', 'none of a priority',
             '/low_prio_machine')}
        self.assert_said(expected)
        if contract.get_nova_release() < '32':
            # Nova does not write the flavor's extra specs into the guest.
            expected = {('old_cpuset', 'low', 'CPUs 8-11,20-23', 'CPUs 0-23'),
                        ('old_cpuset', 'ordinary', 'CPUs 0-23',
                         'CPUs 8-11,20-23')}
        self.assert_said(expected, database=None)

    def _check_pins(self):
        high, pinned = (
            self.servers[kind]['id'] for kind in ('high', 'pinned'))
        taken, = etree.fromstring(self.running['pinned']).xpath(
            '//vcpupin/@cpuset')
        self.edit('high', '//vcpupin[@vcpu="1"]', cpuset=taken)
        first = etree.fromstring(self.running['high']).xpath(
            '//vcpupin[@vcpu="0"]/@cpuset')[0]
        with self.instance(self.servers['high']) as instance:
            given = demand.get_instance_pins(instance)
        rows = self.audit(status=report.FOUND)
        self.assertEqual(
            {('same_cpu', high, 'CPUs %s, with %s' % (taken, pinned)),
             ('same_cpu', pinned, 'CPUs %s, with %s' % (taken, high)),
             ('other_cpus', high, 'CPUs ' + hardware.format_cpu_spec(
                 {int(first), int(taken)}))},
            {tuple(row[name] for name in ('Finding', 'Consumer', 'Libvirt'))
             for row in rows})
        self.assertIn('CPUs ' + hardware.format_cpu_spec(given),
                      [row['Compute'] for row in rows])

    def _check_orphan(self):
        self.running['gone'] = self.running['ordinary'].replace(
            self.servers['ordinary']['id'], uuids.gone)
        self.servers['gone'] = {'id': uuids.gone}
        self.running['foreign'] = (
            '<domain><uuid>%s</uuid><vcpu>1</vcpu></domain>' % uuids.foreign)
        self.assert_said({('unknown_guest', 'gone', 'no guest', 'running')})
        del self.servers['gone']
