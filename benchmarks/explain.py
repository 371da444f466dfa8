# SPDX-License-Identifier: Apache-2.0

"""Measure ``nova-prio explain`` in the cloud of the audit.

Nova has no counterpart. The time includes that of Placement, which runs in the
same process, but not the start of the command.
"""

import statistics

import nova.conf
from nova import context
from nova import objects
from nova.scheduler.client import report

from benchmarks import clock
from nova_prio.admin.explain import answers
from nova_prio.admin.explain import judge
from nova_prio.admin.explain import requests

#: Request -> (priority, vCPUs, whether each host passes). Only a pinned
#: request needs the NUMA topologies of the hosts.
REQUESTS = {'passes': ('low', 2, True), 'pinned': ('high', 2, True),
            'refused': ('high', 16, False)}


def measure(running, size, repeats):
    """Return the seconds for each request.

    :param running: :class:`nova_prio_scenario.cloud.Cloud`
    :param size: number of hosts
    :param repeats: number of runs of each request
    :raises SystemExit: if an explanation has another result
    """
    admin = context.get_admin_context()
    # No service runs on the copied hosts: their heartbeats become old.
    running.flags(service_down_time=24 * 60 * 60)
    found = {'explain.hosts': size}
    for key, (priority, vcpus, expected) in REQUESTS.items():
        flavor = objects.Flavor.get_by_flavor_id(
            admin, running._create_flavor(
                vcpu=vcpus, memory_mb=256, disk=1,
                extra_spec={'hw:cpu_priority': priority}))
        runs = []
        for _ in range(repeats):
            seconds, hosts = clock.seconds(lambda: judge.Judge(
                admin, report.report_client_singleton()).answer(
                requests.build_request(
                    admin, nova.conf.CONF, flavor, {}, None)))
            runs.append(seconds)
            passing = [each.result == answers.PASSES for each in hosts]
            if passing != size * [expected]:
                raise SystemExit(
                    'nova-prio explain: %d of %d hosts pass a request of '
                    'priority %s, expected is %d.' % (
                        sum(passing), len(passing), priority,
                        expected * size))
        found['explain.%s_seconds' % key] = statistics.median(runs)
    return found
