# SPDX-License-Identifier: Apache-2.0

"""The amounts that Nova, Placement and this package count for a host."""

from nova import objects
from oslo_serialization import jsonutils

_USAGE = ('vcpus_used', 'memory_mb_used', 'local_gb_used', 'free_ram_mb',
          'free_disk_gb', 'numa_topology')


def of_host(cloud, host):
    """Return the amounts counted for a host, without a recount.

    :param cloud: tests.functional.base.FunctionalTest
    :returns: dict, name to a value that can be compared
    """
    tracker = cloud.computes[host].rt
    with cloud.record(host) as record:
        devices = objects.PciDeviceList.get_by_compute_node(
            record._context, record.id)
        return {
            'report': record.stats.get('nova_prio'),
            'usage in the record': _usage(record),
            'usage in the tracker': _usage(tracker.compute_nodes[host]),
            'instances': set(tracker.tracked_instances),
            'migrations': set(tracker.tracked_migrations),
            'leases': _leases(cloud.computes[host].driver),
            'devices': {found.address: found.status for found in devices},
            'claimed devices': {
                uuid: len(found) for uuid, found
                in tracker.pci_tracker.claims.items() if found},
            'Placement': _providers(cloud, host),
        }


def _leases(driver):
    """Return the leases of a host, a sorted list.

    It is None with a driver of Nova.
    """
    host = getattr(driver, 'priority_host', None)
    return host and sorted(
        (uuid, sorted(each.cpus), str(each.usage))
        for uuid, each in host.leases.list_all())


def of_all(cloud):
    """Return the amounts of all hosts: dict, host to dict."""
    return {host: of_host(cloud, host) for host in cloud.computes}


def _usage(node):
    pools = node.pci_device_pools or []
    return ({name: getattr(node, name) for name in _USAGE},
            sorted(jsonutils.dumps(pool.to_dict(), sort_keys=True)
                   for pool in pools))


def _providers(cloud, host):
    """Return inventories and usages of a host and its child providers."""
    found = cloud.placement.get(
        '/resource_providers?in_tree=' + cloud.compute_rp_uuids[host],
        version='1.14').body['resource_providers']
    return {provider['name']: [
        cloud.placement.get('/resource_providers/%s/%s' % (
            provider['uuid'], part)).body[part]
        for part in ('inventories', 'usages')] for provider in found}
