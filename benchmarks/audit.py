# SPDX-License-Identifier: Apache-2.0

"""Compare ``nova-prio audit`` with ``nova-manage placement audit``.

Both use Nova's own databases in a file, as in Nova's tests, and a Placement in
the same process. The time and memory of Placement are included for both.
"""

import contextlib
import gc
import tracemalloc
import uuid

from nova.cmd import manage
import nova.conf
from nova import context
from nova.scheduler.client import report

from benchmarks import clock
from benchmarks import copies
from benchmarks import explain
from benchmarks import fleet
from nova_prio.admin.audit import run
from nova_prio.admin import host_inventory
from nova_prio_scenario import cloud

HIGH, LOW, ORDINARY = (
    {'hw:cpu_priority': 'high'}, {'hw:cpu_priority': 'low'}, None)
#: The instances of each host: pairs (extra specs, whether the instance boots
#: from a volume).
INSTANCES = ((HIGH, False), (HIGH, False), (LOW, False), (LOW, True),
             (ORDINARY, False))
#: Number of hosts with two faults: an instance without its allocations, and an
#: allocation of a consumer that never existed.
FAULTS = 10


def measure(size, repeats):
    """Return figures of the audit, explain and fleet, without drift.

    :param size: number of hosts
    :param repeats: number of runs of each audit
    :raises SystemExit: if an audit does not find exactly the known faults
    """
    part = min(host_inventory.PAGE, size)
    found = {'audit.hosts': size, 'audit.repeats': repeats,
             'audit.part.hosts': part}
    with _running(part):
        # The first audit fills caches.
        _ours(part)
        found['audit.part.peak_kib'] = _measure_peak(part)
    with _running(size) as (running, hosts):
        found.update(clock.figures('audit', *time_sides(size, repeats), size))
        for side in 'stock', 'ours':
            found['audit.%s_seconds' % side] = (
                found['audit.%s_us' % side] * size / 1e6)
        found.update(explain.measure(running, size, repeats))
        found.update(fleet.measure(size, size * len(INSTANCES), repeats))
        faults = []
        for host in hosts[::max(1, size // FAULTS)][:FAULTS]:
            faults += _break(running, host)
            # Nova's audit finds only the orphaned allocation.
            _stock(3, host.uuid)
        found['audit.peak_kib'] = _measure_peak(size, faults)
    found['audit.peak_growth'] = (
        found['audit.peak_kib'] / found['audit.part.peak_kib'])
    return found


def measure_all_hosts(key, size, repeats):
    """Return the figures of one audit of all hosts.

    :param key: prefix of the keys of the result
    :param size: number of hosts
    """
    with _running(size):
        return clock.figures(key, *time_sides(size, repeats), 1)


def time_sides(size, repeats):
    """Return the seconds of each audit of all hosts: (of Nova, ours).

    :param size: number of the hosts, none of which has a fault
    """
    return clock.alternate(lambda: clock.seconds(lambda: _stock(0))[0],
                           lambda: clock.seconds(lambda: _ours(size))[0],
                           repeats)


@contextlib.contextmanager
def _running(size):
    """Yield (:class:`nova_prio_scenario.cloud.Cloud`, list of its hosts).

    :param size: number of hosts, each a :class:`benchmarks.copies.Host`
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    with cloud.Cloud.running() as running:
        running.start_host('host', cpus=24, cells=2, dedicated='0-7,12-19',
                           shared='8-11,20-23', ratio=2.0, mix=True,
                           aggregate={'priority_mix': 'true'})
        instances = [_create(running, *each) for each in INSTANCES]
        running.update_host('host')
        yield running, copies.copy_host(
            running.host_mappings['host'], instances, size)


def _create(running, extra_specs, from_volume):
    """Create an instance and return its UUID."""
    flavor = running._create_flavor(
        vcpu=2, memory_mb=256, disk=1, extra_spec=extra_specs)
    body = running._build_server(flavor_id=flavor, networks='none')
    if from_volume:
        body['block_device_mapping_v2'] = [{
            'source_type': 'image', 'uuid': body.pop('imageRef'),
            'destination_type': 'volume', 'volume_size': 1, 'boot_index': 0}]
    server = running.api.post_server({'server': body})
    return running._wait_for_state_change(server, 'ACTIVE')['id']


def _stock(expected, provider=None):
    """Run the audit of Nova, and compare its exit status.

    :param expected: exit status
    :param provider: UUID of the only host to audit, or None for all
    """
    status = manage.PlacementCommands().audit(provider_uuid=provider)
    if status != expected:
        raise SystemExit(
            'nova-manage placement audit ends with status %d, expected is '
            '%d.' % (status, expected))


def _ours(size, expected=(), seen=lambda: None):
    """Run the audit of nova_prio as its command does; compare the findings.

    :param size: expected number of hosts
    :param expected: list of (name of the host, kind of finding, consumer)
    :param seen: function that is called after each host
    """
    audit = run.CloudAudit(context.get_admin_context(),
                           report.report_client_singleton())
    number, found = 0, []
    for of_host, view in audit.run():
        number += view is not None
        found += [(each.host, each.kind, each.consumer) for each in of_host]
        seen()
    if number != size or sorted(found) != sorted(expected):
        raise SystemExit(
            'nova-prio audit reads %d of %d hosts and finds %s, expected is '
            '%s.' % (number, size, sorted(found), sorted(expected)))


def _measure_peak(size, expected=()):
    """Return the peak memory of the audit of nova_prio, in KiB.

    Garbage is collected after each host: otherwise the peak would depend on
    the other objects of the process.

    :param size: number of all hosts
    :param expected: as of ``_ours``
    """
    # Existing objects are not counted, as in the time measurements.
    gc.collect()
    gc.freeze()
    tracemalloc.start()
    try:
        _ours(size, expected, gc.collect)
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def _break(running, host):
    """Make the allocations of a host wrong in Placement.

    :returns: list of (host, kind of finding, consumer), the expected findings
    """
    lost, orphaned = host.instances[0], str(uuid.uuid4())
    running._delete_server_allocations(lost)
    answer = running.placement.put('/allocations/' + orphaned, {
        'allocations': {host.uuid: {'resources': {'VCPU': 1}}},
        'project_id': lost, 'user_id': lost, 'consumer_generation': None},
        version='1.28')
    if answer.status != 204:
        raise SystemExit('Placement refuses an allocation: %s'
                         % answer.body)
    return [(host.name, 'missing_allocation', lost),
            (host.name, 'orphaned_allocation', orphaned)]
