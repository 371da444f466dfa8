# SPDX-License-Identifier: Apache-2.0

"""Whether a host can take instances again after maintenance."""

from collections import abc
import time
import typing

from nova import context as nova_context
from nova.scheduler.client import report
from nova import servicegroup

from nova_prio.admin.audit import run
from nova_prio.admin.host import state
from nova_prio.admin.host import verify
from nova_prio.admin import host_inventory

#: Interval of reading the heartbeats, and the time after which Nova regards a
#: service without one as down.
INTERVAL_SECONDS = 1
TIMEOUT_SECONDS = 60


def wait_for_heartbeats(context: nova_context.RequestContext,
                        hosts: abc.Collection[str]) -> set[str]:
    """Wait for a heartbeat of each nova-compute; return the silent hosts.

    For a minute after a host went down, Nova still regards its nova-compute
    as up. Only a new heartbeat shows that it has started again. nova-compute
    reports the CPUs of its host before its first heartbeat. Thus the report is
    also new then. Do not wait for a nova-compute that is down.

    :param hosts: names of the hosts
    :returns: names of the hosts without a new heartbeat
    """
    group = servicegroup.API()
    # Name of a host -> time of the last heartbeat, when it was first read.
    old: dict[str, typing.Any] = {}
    silent = set(hosts)
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:
        services = host_inventory.read_services(context)
        is_any_up = False
        for name in sorted(silent):
            if name not in services or not group.service_is_up(services[name]):
                continue
            is_any_up = True
            heartbeat = group.get_updated_time(services[name])
            if name not in old:
                old[name] = heartbeat
            elif old[name] != heartbeat:
                silent.remove(name)
        if not silent or not is_any_up or time.monotonic() >= end:
            return silent
        time.sleep(INTERVAL_SECONDS)


def find_differences(context: nova_context.RequestContext,
                     client: report.SchedulerReportClient, host: str,
                     is_silent: bool) -> list[verify.VerifyLine]:
    """Return the differences that "host verify" finds on a host.

    The guests are not read: no instance is left on the host. A priority host
    has the driver of this package, or an aggregate marks it for priority
    instances. On another host, only nova-compute and the findings of the audit
    count.

    :param is_silent: whether nova-compute has sent no heartbeat since the
        maintenance
    :raises nova_prio.admin.host.HostRefused: if the host has no compute node,
        or several
    """
    view = state.read_state(context, client, host)
    audit = run.CloudAudit(context, client)
    is_priority_host = view.allows_priority or view.has_our_driver
    lines = []
    for line in verify.list_lines(view, audit):
        # Only a priority host must have a report and a marked aggregate.
        is_required = is_priority_host or (
            line.item not in (verify.REPORT, verify.AGGREGATE))
        if line.state != verify.OK and is_required:
            lines.append(line)
    # If nova-compute is down, the lines say so already.
    if is_silent and view.is_up:
        lines.insert(0, verify.VerifyLine(
            'nova-compute', compute='no heartbeat', remedy='Wait until '
            'nova-compute has started, and run this command again.'))
    return lines
