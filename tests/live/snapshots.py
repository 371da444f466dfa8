# SPDX-License-Identifier: Apache-2.0


"""Take snapshots of a cloud through the APIs and with virsh."""

import configparser
import fractions
import math
import subprocess
import xml.etree.ElementTree

from nova.compute import power_state
from nova.virt import hardware
from openstack.compute.v2 import server as servers

from tests.live import client
from tests.live import state


#: Name prefix of the paused guests with which nova-compute probes whether
#: libvirt can start guests. They are not servers.
PROBE = 'nova-prio-probe-'
#: Exceptions of a snapshot while a host is down.
DOWN = (FileNotFoundError, subprocess.SubprocessError)


def read_active_guests(layout, name):
    """Return a state.Snapshot of one host, with the guests that are active.

    :param layout: Layout
    """
    return state.Snapshot(hosts=(_host(layout, name, active_only=True),))


def _host(layout, name, active_only):
    options = configparser.ConfigParser(interpolation=None, strict=False)
    options.read([layout.etc / 'nova' / (file + '.conf')
                  for file in ('common', name, 'readme-compute')])
    return state.Host(
        name, _cpus(options['compute']['cpu_dedicated_set']),
        _cpus(options['compute']['cpu_shared_set']),
        fractions.Fraction(options['DEFAULT']['cpu_allocation_ratio']),
        options.getboolean('DEFAULT', 'cpu_priority_mix_enable',
                           fallback=False),
        tuple(_domains(layout, name, active_only)))


def _domains(layout, name, active_only):
    inactive = () if active_only else ('--all',)
    uuids = client.virsh(layout, name, 'list', '--uuid', *inactive).split()
    # If a guest has ended since, dumpxml fails. The echo always succeeds.
    text = client.virsh(layout, name, '; '.join(
        ['dumpxml ' + uuid for uuid in uuids] + ['echo']))
    for element in xml.etree.ElementTree.fromstring(
            '<domains>%s</domains>' % text):
        is_active = 'id' in element.attrib
        if active_only and element.findtext('name').startswith(PROBE):
            continue
        if is_active or not active_only:
            yield _domain(element, is_active)


def _domain(element, is_active):
    """Return the state.Domain that an XML element describes."""
    vcpu = element.find('vcpu')
    cpuset = vcpu.get('cpuset')
    pins = {pin.get('vcpu'): pin.get('cpuset')
            for pin in element.findall('cputune/vcpupin')}
    threads = [pin.get('cpuset') for name in ('emulatorpin', 'iothreadpin')
               for pin in element.findall('cputune/' + name)]
    return state.Domain(
        element.findtext('name'), element.findtext('uuid'), is_active,
        # For a running guest, libvirt adds its default partition.
        element.findtext('resource/partition', '/machine'),
        tuple(_cpus(pins.get(str(number), cpuset))
              for number in range(int(vcpu.text))),
        frozenset().union(*map(_cpus, threads or [cpuset])))


def _cpus(text):
    return frozenset(hardware.parse_cpu_spec(text or ''))


def read_all(layout, connection):
    """Return a state.Snapshot of hosts and services.

    :param connection: openstacksdk connection of the administrator
    """
    compute = connection.compute
    flavors = compute.get(
        '/flavors/detail', params={'is_public': 'None'}, microversion='2.61'
        ).json()['flavors']
    flavor_specs = {flavor['name']: flavor['extra_specs']
                    for flavor in flavors}
    return state.Snapshot(
        hosts=tuple(_host(layout, name, active_only=False)
                    for name in layout.hosts),
        servers=tuple(
            _server(found, flavor_specs) for found in servers.Server.list(
                compute, base_path='/servers/detail', microversion='2.100',
                all_projects=True)),
        migrations=tuple(map(_migration, compute.migrations())),
        providers=tuple(_provider(connection.placement, provider) for provider
                        in connection.placement.resource_providers()),
        # Later microversions do not show the usage.
        hypervisors=tuple(map(_hypervisor, compute.get(
            '/os-hypervisors/detail', microversion='2.87').json()[
                'hypervisors'])),
        priority_hosts=frozenset(
            host for aggregate in compute.aggregates()
            for host in aggregate.hosts or () if 'true' in (
                aggregate.metadata.get('priority_mix'),
                aggregate.metadata.get('priority'))))


def _server(found, flavor_specs):
    """Return a state.Server.

    :param found: server of the SDK
    :param flavor_specs: dict, flavor name -> present extra specs
    """
    image, flavor = found.image, found.flavor
    has_image = bool(image and image.id)
    return state.Server(
        found.id, found.name, found.status, found.task_state,
        found.compute_host, flavor.vcpus, flavor.ram,
        (flavor.disk if has_image else 0) + flavor.ephemeral +
        math.ceil((flavor.swap or 0) / 1024),
        dict(flavor.extra_specs),
        dict(image.properties or {}) if has_image else {},
        # Nova shows a list of one value if the request had a list.
        {name: ' '.join(values) if isinstance(values, list) else values
         for name, values in (found.scheduler_hints or {}).items()},
        bool(found.fault),
        found.power_state in (power_state.RUNNING, power_state.PAUSED),
        flavor_specs.get(flavor.original_name))


def _migration(found):
    return state.Migration(
        found.uuid, found.server_id, found.status, found.source_compute,
        found.migration_type != 'resize')


def _provider(placement, provider):
    records = {name: placement.get('/resource_providers/%s/%s' % (
        provider.id, name)).json()[name] for name in (
            'inventories', 'usages', 'traits', 'allocations')}
    return state.Provider(
        provider.name, records['inventories'], records['usages'],
        frozenset(records['traits']),
        {consumer: found['resources']
         for consumer, found in records['allocations'].items()})


def _hypervisor(found):
    return state.Hypervisor(
        found['hypervisor_hostname'], found['vcpus_used'],
        found['memory_mb_used'], found['local_gb_used'],
        found['state'] == 'up')
