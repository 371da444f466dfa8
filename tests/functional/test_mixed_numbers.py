# SPDX-License-Identifier: Apache-2.0

"""Flavors with numbers of PCPU and VCPU: layouts and refusals."""

import contextlib

from nova.api.metadata import base as metadata
from nova import exception
from nova import objects
from nova import utils
from nova.virt import hardware
from oslo_serialization import jsonutils
import testtools

from tests.functional import test_requests

hw = test_requests.hw


def numbers(pcpu, vcpu, **extra_specs):
    """Return extra specs with both numbers, and others with prefix hw."""
    return {'resources:PCPU': str(pcpu), 'resources:VCPU': str(vcpu),
            **hw(**extra_specs)}


def mixed(mask, **extra_specs):
    """Return extra specs of the mixed policy, and others with prefix hw."""
    return hw(cpu_policy='mixed', cpu_dedicated_mask=mask, **extra_specs)


class Mixed(test_requests.Requests):
    """Base class with methods for mixed guests and their CPUs."""

    def any_flavor(self, vcpus, extra_specs, memory_mb=256):
        """Create a flavor, even if new microversions refuse it."""
        with utils.temporary_mutation(
                self.api_fixture.admin_api, microversion='2.85'):
            return self._create_flavor(
                vcpu=vcpus, memory_mb=memory_mb, disk=1, ephemeral=0,
                extra_spec=extra_specs or None)

    def held(self, server):
        """Return the CPU allocations of a server: host to (PCPU, VCPU)."""
        hosts = {uuid: host for host, uuid in self.compute_rp_uuids.items()}
        return {hosts[provider]: (resources.get('PCPU', 0),
                                  resources.get('VCPU', 0))
                for provider, resources in super().held(server).items()}

    def layout(self, server):
        """Return the layout of the vCPUs of a guest, such as 'S0 D0 S1 D1'.

        Each vCPU runs on a dedicated CPU of its own (D) or on the shared CPUs
        (S) of a NUMA cell. The layout is 'S' if all vCPUs float on all shared
        CPUs. If the emulator threads run on other CPUs than the vCPUs, a word
        such as '+D0' follows.
        """
        domain = self.domain(server)
        names = self._names_of_cpus(self.host_of(server))
        vcpus = int(domain.findtext('vcpu'))
        pins = {int(pin.get('vcpu')): pin
                for pin in domain.iterfind('cputune/vcpupin')}
        if not pins:
            return self._name(domain.find('vcpu'), names)
        self.assertEqual(set(range(vcpus)), set(pins))
        emulator = domain.find('cputune/emulatorpin')
        found = [pins[vcpu] for vcpu in range(vcpus)]
        if _cpus(emulator) != set().union(*map(_cpus, found)):
            found.append(emulator)
        alone = [pin.get('cpuset') for pin in found if len(_cpus(pin)) == 1]
        self.assertEqual(len(set(alone)), len(alone), 'a CPU is pinned twice')
        layout = [self._name(pin, names) for pin in found]
        return ' '.join(layout[:vcpus] + ['+' + name
                                          for name in layout[vcpus:]])

    def _name(self, element, names):
        return names.get(frozenset(_cpus(element)), element.get('cpuset'))

    def _names_of_cpus(self, host):
        """Return dict, frozenset of CPUs of a host to the name of the set."""
        dedicated, shared = (
            hardware.parse_cpu_spec(self._host_options[host]['compute', name])
            for name in ('cpu_dedicated_set', 'cpu_shared_set'))
        with self.record(host) as node:
            topology = jsonutils.loads(node.numa_topology)
        names = {}
        for cell in topology['nova_object.data']['cells']:
            cell = cell['nova_object.data']
            names[frozenset(shared & set(cell['cpuset']))] = (
                'S%d' % cell['id'])
            names.update((frozenset([cpu]), 'D%d' % cell['id'])
                         for cpu in dedicated & set(cell['pcpuset']))
        names[frozenset(shared)] = 'S'
        return names

    def dedicated_cpus(self, server):
        """Return the mask of dedicated vCPUs that a guest can read.

        Also assert that metadata service and config drive are equal.
        """
        told = metadata.get_metadata_by_instance_id(server['id'], None)
        drive = dict(told.metadata_for_config_drive())
        found = set()
        for version in metadata.OPENSTACK_VERSIONS[-1], 'latest':
            path = 'openstack/%s/meta_data.json' % version
            for text in told.lookup('/' + path), drive[path]:
                found.add(tuple(jsonutils.loads(text)['dedicated_cpus']))
        vcpus, = found
        return hardware.format_cpu_spec(set(vcpus))

    def refused(self, flavor, **kwargs):
        """Create a server, which must be refused; return the error text."""
        return self.refusal(self.api.post_server, {
            'server': self._build_server(
                flavor_id=flavor, networks='none', **kwargs)})

    def resize_refused(self, server, flavor):
        """Resize a server, which must be refused; return the error text."""
        return self.refusal(self.api.post_server_action, server['id'], {
            'resize': {'flavorRef': flavor}})

    @contextlib.contextmanager
    def nothing_changes(self):
        """Assert that servers and allocations are as before."""
        before = self._servers_and_allocations()
        yield
        self.assertEqual(before, self._servers_and_allocations())

    def _servers_and_allocations(self):
        servers = self.api.get_servers(search_opts={'all_tenants': 1})
        return ([(server, self.held(server)) for server in servers],
                {host: self.resources(host, 'usages')
                 for host in self.compute_rp_uuids})


def _cpus(element):
    return hardware.parse_cpu_spec(element.get('cpuset'))


def _vcpus(layout, condition):
    places = layout.partition('+')[0].split()
    return hardware.format_cpu_spec({
        vcpu for vcpu, place in enumerate(places) if condition(place)})


def mask_of(layout):
    """Return the mask of dedicated vCPUs in a layout."""
    return _vcpus(layout, lambda place: place.startswith('D'))


class OneHost(Mixed):
    """Two NUMA cells, each with 6 dedicated and 4 shared CPUs.

    The host is a priority host without mix, which accepts real-time guests.
    """

    def setUp(self):
        super().setUp()
        self.start_host('host', cpus=20, cells=2, dedicated='0-5,10-15',
                        shared='6-9,16-19',
                        aggregate={'priority_mix': 'true'})


#: The example of the specification, with its result.
EXAMPLE = numbers(5, 3, numa_nodes='2')
ON_TWO_NODES = 'S0 S0 D0 D0 S1 D1 D1 D1'
UNEVEN = {'hw:numa_nodes': '2',
          'hw:numa_cpus.0': '0-1', 'hw:numa_mem.0': '64',
          'hw:numa_cpus.1': '2-7', 'hw:numa_mem.1': '192'}
IN_TURNS = {'hw:numa_nodes': '2',
            'hw:numa_cpus.0': '0,2,4,6', 'hw:numa_mem.0': '128',
            'hw:numa_cpus.1': '1,3,5,7', 'hw:numa_mem.1': '128'}
OF_IMAGE = {key.replace('hw:', 'hw_'): value for key, value in UNEVEN.items()}
#: An example of the specification that uses a mask.
MASK_ON_TWO_NODES = mixed('2,7', **{
    'numa_nodes': '2', 'numa_cpus.0': '0-2', 'numa_mem.0': '1024',
    'numa_cpus.1': '3-7', 'numa_mem.1': '2048'})
REALTIME = {'hw:cpu_realtime': 'yes'}
REALTIME_MASK = {**hw(cpu_policy='mixed', cpu_realtime_mask='2-3'), **REALTIME}
NONE_SHARED_IN_GROUPS = {
    'resources1:PCPU': '4', 'resources2:VCPU': '0', 'group_policy': 'none'}
NONE_DEDICATED_IN_GROUPS = {'resources1:PCPU': '0', 'resources:VCPU': '4'}
HIGH = {'hw:cpu_priority': 'high'}
LOW = {'hw:cpu_priority': 'low'}

#: vCPUs and extra specs of a flavor, and the properties of an image; extra
#: specs stored with the instance, its layout, and its PCPU and VCPU.
BECOMES = {
    'example': (8, EXAMPLE, {}, mixed('2-3,5-7', numa_nodes='2'),
                ON_TWO_NODES, (5, 3)),
    'example with a mask': (8, mixed('0-3,7'), {}, mixed('0-3,7'),
                            'D0 D0 D0 D0 S0 S0 S0 D0', (5, 3)),
    'example with a mask on two nodes': (
        8, MASK_ON_TWO_NODES, {}, MASK_ON_TWO_NODES,
        'S0 S0 D0 S1 S1 S1 S1 D1', (2, 6)),
    'one node': (8, numbers(5, 3), {}, mixed('3-7'),
                 'S0 S0 S0 D0 D0 D0 D0 D0', (5, 3)),
    'one is shared': (8, numbers(7, 1, numa_nodes='2'), {},
                      mixed('1-7', numa_nodes='2'),
                      'S0 D0 D0 D0 D1 D1 D1 D1', (7, 1)),
    'one is dedicated': (8, numbers(1, 7, numa_nodes='2'), {},
                         mixed('7', numa_nodes='2'),
                         'S0 S0 S0 S0 S1 S1 S1 D1', (1, 7)),
    'uneven nodes': (8, {**numbers(3, 5), **UNEVEN}, {},
                     {**mixed('5-7'), **UNEVEN},
                     'S0 S0 S1 S1 S1 D1 D1 D1', (3, 5)),
    'nodes in turns': (8, {**numbers(5, 3), **IN_TURNS}, {},
                       {**mixed('3-7'), **IN_TURNS},
                       'S0 S1 S0 D1 D0 D1 D0 D1', (5, 3)),
    'nodes of the image': (8, numbers(5, 3), {'hw_numa_nodes': '2'},
                           mixed('2-3,5-7'), ON_TWO_NODES, (5, 3)),
    'uneven nodes of the image': (8, numbers(3, 5), OF_IMAGE, mixed('5-7'),
                                  'S0 S0 S1 S1 S1 D1 D1 D1', (3, 5)),
    'isolated emulator threads': (
        8, {**EXAMPLE, **numbers(6, 3, emulator_threads_policy='isolate')},
        {}, mixed('2-3,5-7', numa_nodes='2',
                  emulator_threads_policy='isolate'),
        ON_TWO_NODES + ' +D0', (6, 3)),
    'shared emulator threads': (
        8, {**EXAMPLE, **hw(emulator_threads_policy='share')}, {},
        mixed('2-3,5-7', numa_nodes='2', emulator_threads_policy='share'),
        ON_TWO_NODES + ' +S', (5, 3)),
    'real-time': (8, {**EXAMPLE, **REALTIME}, {}, hw(
        cpu_policy='mixed', numa_nodes='2', cpu_realtime='yes',
        cpu_realtime_mask='2-3,5-7'), ON_TWO_NODES + ' +S', (5, 3)),
    'real-time and isolated': (
        4, {**numbers(3, 2, emulator_threads_policy='isolate'), **REALTIME},
        {}, hw(cpu_policy='mixed', emulator_threads_policy='isolate',
               cpu_realtime='yes', cpu_realtime_mask='2-3'),
        'S0 S0 D0 D0 +D0', (3, 2)),
    # Equivalent masks of dedicated vCPUs.
    'real-time by mask': (4, REALTIME_MASK, {}, REALTIME_MASK,
                          'S0 S0 D0 D0 +S0', (2, 2)),
    'real-time by mask of the image': (
        4, {**hw(cpu_policy='mixed'), **REALTIME},
        {'hw_cpu_realtime_mask': '^0-1'},
        {**hw(cpu_policy='mixed'), **REALTIME}, 'S0 S0 D0 D0 +S0', (2, 2)),
    'numbered groups': (
        8, {'resources1:PCPU': '5', 'resources2:VCPU': '3',
            'trait1:CUSTOM_CPU_PRIORITY': 'required', 'group_policy': 'none',
            **hw(numa_nodes='2')}, {},
        {**mixed('2-3,5-7', numa_nodes='2'), 'group_policy': 'none',
         'trait:CUSTOM_CPU_PRIORITY': 'required'}, ON_TWO_NODES, (5, 3)),
    'several groups': (
        8, {'resources1:PCPU': '2', 'resources:PCPU': '3',
            'resources2:VCPU': '3', 'group_policy': 'none',
            **hw(numa_nodes='2')}, {},
        {**mixed('2-3,5-7', numa_nodes='2'), 'group_policy': 'none'},
        ON_TWO_NODES, (5, 3)),
    'high': (8, {**EXAMPLE, **HIGH}, {},
             {**mixed('2-3,5-7', numa_nodes='2'), **HIGH},
             ON_TWO_NODES, (5, 3)),
    # If one number is zero, all vCPUs are of one kind.
    'none shared': (4, numbers(4, 0), {}, numbers(4, 0),
                    'D0 D0 D0 D0', (4, 0)),
    'none shared, isolated': (
        4, numbers(5, 0, emulator_threads_policy='isolate'), {},
        numbers(5, 0, emulator_threads_policy='isolate'),
        'D0 D0 D0 D0 +D0', (5, 0)),
    'none shared, in groups': (
        4, NONE_SHARED_IN_GROUPS, {}, NONE_SHARED_IN_GROUPS,
        'D0 D0 D0 D0', (4, 0)),
    'none dedicated': (4, numbers(0, 4), {}, numbers(0, 4), 'S', (0, 4)),
    'none dedicated, in groups': (
        4, NONE_DEDICATED_IN_GROUPS, {}, NONE_DEDICATED_IN_GROUPS,
        'S', (0, 4)),
    'none dedicated on two nodes': (
        4, numbers(0, 4, numa_nodes='2'), {}, numbers(0, 4, numa_nodes='2'),
        'S0 S0 S1 S1', (0, 4)),
    'high, none shared': (4, {**numbers(4, 0), **HIGH}, {},
                          {**numbers(4, 0), **HIGH}, 'D0 D0 D0 D0', (4, 0)),
    'low, none dedicated': (4, {**numbers(0, 4), **LOW}, {},
                            hw(cpu_priority='low', cpu_policy='shared'),
                            'S', (0, 4)),
}


class Accepted(OneHost):

    def test_result_of_each_combination(self):
        for name, (vcpus, asked, properties, *becomes) in BECOMES.items():
            with self.subTest(name):
                self._assert_becomes(
                    self.any_flavor(vcpus, asked, memory_mb=(
                        3072 if '1024' in asked.values() else 256)),
                    self.image(**properties), *becomes)

    def _assert_becomes(self, flavor, image, kept, layout, held):
        server = self.ask(flavor, image_uuid=image)
        self.assertEqual('ACTIVE', server['status'], self.log.output)
        self.assertEqual(kept, self.extra_specs(server))
        self.assertEqual(layout, self.layout(server))
        self.assertEqual({'host': held}, self.held(server))
        self.assertEqual(held, tuple(
            self.resources('host', 'usages')[name]
            for name in ('PCPU', 'VCPU')))
        mask = mask_of(layout)
        self.assertEqual(mask, self.dedicated_cpus(server))
        # The guest has a node for each host cell that the guest uses.
        self.assertEqual(
            [_vcpus(layout, lambda place: place.endswith(cell))
             for cell in '01' if cell in layout],
            [cell.get('cpus') for cell in
             self.domain(server).iterfind('cpu/numa/cell')])
        # Only dedicated vCPUs are real-time vCPUs.
        self.assertEqual(
            [mask] if 'hw:cpu_realtime' in kept else [],
            [scheduled.get('vcpus') for scheduled in
             self.domain(server).iterfind('cputune/vcpusched')])
        priority = kept.get('hw:cpu_priority')
        self.assertEqual(priority and '/%s_prio_machine' % priority,
                         self.domain(server).findtext('resource/partition'))
        self.delete(server)

    def test_trait_of_a_resource_group_applies(self):
        """The host has no mix."""
        server = self.ask(self.any_flavor(8, {
            'resources1:PCPU': '5', 'resources2:VCPU': '3',
            'trait2:CUSTOM_CPU_PRIORITY_MIX': 'required',
            'group_policy': 'none'}))
        self.assertEqual('ERROR', server['status'])
        self.assertEqual({}, self.held(server))


#: vCPUs and extra specs of a flavor, the properties of an image, and words
#: of the response: the given value and, if of help, the allowed values.
REFUSED = [
    # The sum differs from the number of vCPUs.
    (8, numbers(5, 4), {}, ['5 and 4', 'add up to its 8 vCPUs']),
    (8, numbers(5, 2), {}, ['5 and 2']),
    (8, numbers(0, 0), {}, ['0 and 0']),
    (8, numbers(0, 7), {}, ['0 and 7']),
    (8, numbers(9, 0), {}, ['9 and 0']),
    (8, numbers(5, 3, emulator_threads_policy='isolate'), {},
     ['5 and 3', 'and one for the isolated emulator threads']),
    (8, numbers(5, 4, emulator_threads_policy='share'), {}, ['5 and 4']),
    (8, numbers(1, 8, emulator_threads_policy='isolate'), {},
     ['resources:PCPU', "'1'", 'isolated emulator threads']),
    (8, {'resources1:PCPU': '5', 'resources2:VCPU': '4',
         'group_policy': 'none'}, {}, ['5 and 4']),
    (8, {'resources1:PCPU': '5', 'resources:PCPU': '1',
         'resources:VCPU': '3'}, {}, ['6 and 3']),
    # The value is no number, or too large.
    (8, numbers(-5, 13), {}, ['resources:PCPU', "'-5'"]),
    (8, numbers(13, -5), {}, ['resources:VCPU', "'-5'"]),
    (8, numbers('five', 3), {}, ['resources:PCPU', "'five'"]),
    (8, numbers(5, 'some'), {}, ['resources:VCPU', "'some'"]),
    (8, numbers('', 8), {}, ['resources:PCPU', "''"]),
    (8, numbers('5.0', 3), {}, ['resources:PCPU', "'5.0'"]),
    (8, numbers('+5', 3), {}, ['resources:PCPU', "'+5'"]),
    (8, numbers('\u0665', 3), {}, ['resources:PCPU', "'\u0665'"]),
    (8, {'resources7:PCPU': '5,', 'resources:VCPU': '3'}, {},
     ['resources7:PCPU', "'5,'"]),
    (8, numbers(2 ** 31, 3), {}, ['2147483648 and 3']),
    (8, numbers(5, '9' * 255), {}, ['5 and 999']),
    # Other settings also select dedicated vCPUs.
    *((8, {**EXAMPLE, key: value}, {}, [key, "'%s'" % value]) for key, value
      in (('hw:cpu_policy', 'dedicated'), ('hw:cpu_policy', 'mixed'),
          ('hw:cpu_policy', 'shared'), ('hw:cpu_dedicated_mask', '2-3,5-7'),
          ('hw:cpu_realtime_mask', '^0'))),
    (8, {**EXAMPLE, **mixed('2-3,5-7')}, {}, ['hw:cpu_policy', "'mixed'"]),
    (8, {**EXAMPLE, **REALTIME, **hw(cpu_realtime_mask='2-3,5-7')}, {},
     ['hw:cpu_realtime_mask', "'2-3,5-7'"]),
    (8, EXAMPLE, {'hw_cpu_policy': 'dedicated'},
     ['hw_cpu_policy', "'dedicated'"]),
    (8, EXAMPLE, {'hw_cpu_policy': 'shared'}, ['hw_cpu_policy', "'shared'"]),
    (8, {**EXAMPLE, **REALTIME}, {'hw_cpu_realtime_mask': '^0-1'},
     ['hw_cpu_realtime_mask', "'^0-1'"]),
    # Traits of groups that contradict each other.
    (8, {'resources1:PCPU': '5', 'resources2:VCPU': '3',
         'trait1:CUSTOM_A': 'required', 'trait2:CUSTOM_A': 'forbidden',
         'group_policy': 'none'}, {}, ['trait2:CUSTOM_A', "'forbidden'"]),
    # Nova takes the CPU of the emulator threads from node 0.
    (8, numbers(2, 7, numa_nodes='2', emulator_threads_policy='isolate'), {},
     ['hw:emulator_threads_policy', "'isolate'", 'NUMA node 0']),
    (8, {**numbers(4, 5, emulator_threads_policy='isolate'), **UNEVEN}, {},
     ['hw:emulator_threads_policy', "'isolate'", 'NUMA node 0']),
    # Priorities that conflict with the numbers.
    (8, {**EXAMPLE, **LOW}, {}, ['resources:PCPU', "'5'", 'low priority']),
    (8, {**numbers(8, 0), **LOW}, {},
     ['resources:PCPU', "'8'", 'low priority']),
    (8, {**numbers(0, 8), **HIGH}, {},
     ['resources:VCPU', "'8'", 'high priority']),
    # Nova's own refusals. In the first ones, one number is zero.
    *((8, {**asked, **numbers(*each)}, properties, [word])
      for each in ((8, 0), (0, 8))
      for asked, properties, word in (
          (hw(cpu_policy='mixed'), {}, 'hw:cpu_policy'),
          (hw(cpu_dedicated_mask='0-1'), {}, 'hw:cpu_dedicated_mask'),
          ({}, {'hw_cpu_policy': 'dedicated'}, 'hw_cpu_policy'))),
    (8, numbers(0, 9, emulator_threads_policy='isolate'), {},
     ['isolated', 'requires a dedicated CPU policy']),
    # Only dedicated vCPUs are real-time vCPUs.
    *((8, {**asked, **hw(cpu_realtime='yes', cpu_realtime_mask='2-3')}, {},
       [words]) for asked, words in (
        (numbers(0, 8), 'non dedicated cpu pinning policy'),
        (hw(cpu_policy='shared'), 'non dedicated cpu pinning policy'),
        (mixed('2-3'), "'hw:cpu_dedicated_mask' and 'hw:cpu_realtime_mask'"),
      )),
    (7, numbers(4, 3, numa_nodes='2'), {}, ['NUMA']),
    (8, numbers(5, 3, numa_nodes='0'), {}, ["'numa_nodes'", "'0'"]),
    (8, {**EXAMPLE, **hw(numa_nodes='4')}, {'hw_numa_nodes': '2'},
     ['hw_numa_nodes', 'not permitted to override']),
]


class Refused(OneHost):
    """Each 400 names key and value. No allocation remains."""

    def test_create_refuses_wrong_numbers(self):
        with self.nothing_changes():
            for vcpus, asked, properties, words in REFUSED:
                with self.subTest(asked=asked):
                    self._assert_said(words, self.refused(
                        self.any_flavor(vcpus, asked),
                        image_uuid=self.image(**properties)))
        self.assertEqual([], self.api.get_servers())

    def test_resize_refuses_wrong_numbers(self):
        flavor = self.flavor(2)
        servers = {}
        for _, _, properties, _ in REFUSED:
            image = str(properties)
            if image not in servers:
                servers[image] = self.ask(
                    flavor, image_uuid=self.image(**properties))
                self.assertEqual('ACTIVE', servers[image]['status'])
        with self.nothing_changes():
            for vcpus, asked, properties, words in REFUSED:
                with self.subTest(asked=asked):
                    self._assert_said(words, self.resize_refused(
                        servers[str(properties)],
                        self.any_flavor(vcpus, asked)))

    def _assert_said(self, words, text):
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(1, len(text.splitlines()), text)

    def test_stock_nova_refuses_both_numbers(self):
        server = self.ask(self.flavor(2))
        self.flags(enabled=False, group='nova_prio')
        both = 'not possible to specify both'
        beside = 'in combination with the'
        for asked, word in (
                (EXAMPLE, both), (numbers(5, 4), both),
                (numbers(1, 8, emulator_threads_policy='isolate'), both),
                ({**EXAMPLE, **HIGH}, both), ({**EXAMPLE, **LOW}, both),
                ({'resources1:PCPU': '5', 'resources2:VCPU': '3',
                  'group_policy': 'none'}, both),
                ({**EXAMPLE, **mixed('2-3,5-7')}, beside)):
            flavor = self.flavor(8, **asked)
            with self.subTest(asked=asked), self.nothing_changes():
                self.assertIn(word, self.refused(flavor))
                self.assertIn(word, self.resize_refused(server, flavor))


MIXED, DEDICATED, SHARED, CONFLICT = (
    'S0 S0 D0 D0', 'D0 D0 D0 D0', 'S', 'conflict')
IMAGES = [{'hw_cpu_policy': policy}
          for policy in ('dedicated', 'mixed', 'shared')] + [{}]

#: CPU policy of a flavor; the result with each policy of the image. The
#: specification calls 'mixed' a conflict if the image has 'shared', but Nova
#: accepts it as mixed. This concerns no numbers, so it stays.
MATRIX = {
    'dedicated': (hw(cpu_policy='dedicated'),
                  (DEDICATED, DEDICATED, DEDICATED, DEDICATED)),
    'mixed': (mixed('2-3'), (CONFLICT, MIXED, MIXED, MIXED)),
    'shared': (hw(cpu_policy='shared'), (CONFLICT, CONFLICT, SHARED, SHARED)),
    # An image cannot select the dedicated vCPUs.
    'undefined': ({}, (DEDICATED, CONFLICT, SHARED, SHARED)),
    'undefined, with a mask': (hw(cpu_dedicated_mask='2-3'),
                               (CONFLICT, MIXED, CONFLICT, CONFLICT)),
    'numbers': (numbers(2, 2), (CONFLICT, MIXED, CONFLICT, MIXED)),
    'numbers, none shared': (
        numbers(4, 0), (CONFLICT, CONFLICT, CONFLICT, DEDICATED)),
    'numbers, none dedicated': (
        numbers(0, 4), (CONFLICT, CONFLICT, CONFLICT, SHARED)),
}


class Matrix(OneHost):
    """The CPU policies of the flavor and of the image, combined."""

    def _cell(self, flavor, properties):
        answer = self.api.api_post('/servers', {'server': self._build_server(
            flavor_id=flavor, image_uuid=self.image(**properties),
            networks='none')}, check_response_status=[202, 400])
        if answer.status == 400:
            return CONFLICT
        server = self.soon(self._settled, answer.body['server'])
        layout = self.layout(server)
        self.assertEqual(
            (layout.count('D'), 4 - layout.count('D')),
            self.held(server)['host'])
        self.delete(server)
        return layout

    def test_result_of_each_combination(self):
        for name, (extra_specs, row) in MATRIX.items():
            with self.subTest(name):
                self.assertEqual(row, tuple(
                    self._cell(self.flavor(4, **extra_specs), image)
                    for image in IMAGES))


class StockNova(testtools.TestCase):

    def test_stock_nova_agrees_except_on_numbers(self):
        objects.register_all()
        layouts = {'mixed': MIXED, 'dedicated': DEDICATED}
        for name, (extra_specs, row) in MATRIX.items():
            found = []
            for properties in IMAGES:
                try:
                    topology = hardware.numa_get_constraints(
                        objects.Flavor(vcpus=4, memory_mb=256,
                                       extra_specs=extra_specs),
                        objects.ImageMeta.from_dict(
                            {'properties': properties}))
                except exception.NovaException:
                    found.append(CONFLICT)
                else:
                    found.append(SHARED if topology is None else
                                 layouts[topology.cells[0].cpu_policy])
            self.assertEqual(
                4 * [CONFLICT] if name == 'numbers' else list(row), found)
