# SPDX-License-Identifier: Apache-2.0

"""Measure the read of a fleet for the planner, in the cloud of the audit.

Nova has no counterpart. The time includes that of Placement, which runs in the
same process.
"""

import statistics

from nova import context
from nova.scheduler.client import report

from benchmarks import clock
from nova_prio.admin.fleet import cloud_fleet


def measure(hosts, instances, repeats):
    """Return the seconds in which the hosts and instances are read.

    :param hosts: expected number of hosts
    :param instances: expected number of instances
    :param repeats: number of reads
    :raises SystemExit: if another number is read
    """
    runs = []
    for _ in range(repeats):
        seconds, fleet = clock.seconds(lambda: cloud_fleet.read_fleet(
            context.get_admin_context(), report.report_client_singleton()))
        runs.append(seconds)
        found = len(fleet.hosts), len(fleet.instances)
        if found != (hosts, instances):
            raise SystemExit(
                'The fleet has %d hosts and %d instances, expected are %d and '
                '%d.' % (*found, hosts, instances))
    return {'fleet.instances': instances,
            'fleet.read_seconds': statistics.median(runs)}
