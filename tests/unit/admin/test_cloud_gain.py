# SPDX-License-Identifier: Apache-2.0

"""The hosts that a forecast omits."""

import datetime

from nova import objects
from nova.objects import fields
from oslo_utils import timeutils

from nova_prio.admin import cloud_gain
from nova_prio.admin import host_inventory


def make_record(name, kind=fields.HVType.QEMU, age_seconds=0):
    """Return a host whose nova-compute was seen some seconds ago."""
    seen_at = timeutils.utcnow(with_timezone=True) - datetime.timedelta(
        seconds=age_seconds)
    return host_inventory.HostRecord(
        node=objects.ComputeNode(host=name, hypervisor_type=kind),
        service=objects.Service(
            host=name, binary='nova-compute', topic='compute',
            last_seen_up=seen_at, forced_down=False, created_at=seen_at),
        cell='', aggregates=[])


def test_hosts_without_room_for_servers_are_named():
    hosts = [make_record('good'), make_record('down', age_seconds=9999),
             make_record('metal', fields.HVType.IRONIC),
             make_record('twice'), make_record('twice'),
             make_record('other', age_seconds=9999)]
    assert {'down': 'is down', 'metal': 'is for bare metal servers',
            'twice': 'has 2 compute nodes, not one',
            'silent': 'has 0 compute nodes, not one'
            } == cloud_gain.find_unusable(
        ['good', 'down', 'metal', 'twice', 'silent'], hosts)
