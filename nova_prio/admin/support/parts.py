# SPDX-License-Identifier: Apache-2.0

"""The files of a support bundle."""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.admin.support import cloud_parts
from nova_prio.admin.support import configuration
from nova_prio.admin.support import host_parts
from nova_prio.admin.support import logs


class Part(typing.NamedTuple):
    """A file of a bundle.

    ``content`` describes it. ``read`` is a function of a Source, which returns
    data for JSON, or the lines of a ``.txt`` file. If
    ``needs_configuration`` is false, the Source may be None.
    """

    name: str
    content: str
    read: abc.Callable[[typing.Any], typing.Any]
    needs_configuration: bool = True


#: All parts, in the order in which they are read.
ALL = (
    Part('versions.json', 'Versions of nova-prio, Nova, its libraries, '
         'libvirt, QEMU, the kernel and the distribution.',
         host_parts.list_versions, needs_configuration=False),
    Part('contract.json', 'Names of Nova that nova-prio relies on, but that '
         'this Nova lacks.',
         host_parts.check_contract, needs_configuration=False),
    Part('configuration.json', "Options of Nova that are set, nova-prio's "
         'options, and their files.',
         lambda sources: configuration.describe(sources.conf)),
    # This part configures the databases, so it must be the first to use them.
    Part('upgrade-check.json', 'Results of nova-prio-status upgrade check.',
         cloud_parts.run_upgrade_check),
    Part('capacity.json', 'Sold, sellable and remaining vCPUs of the hosts.',
         cloud_parts.list_capacity),
    Part('reports.json', 'Reports of the hosts.', cloud_parts.list_reports),
    Part('aggregates.json', 'Host aggregates with their hosts and metadata.',
         cloud_parts.list_aggregates),
    Part('services.json', 'Services of Nova with their states.',
         cloud_parts.list_services),
    Part('disabled-hosts.json', 'Hosts disabled for priority instances.',
         cloud_parts.list_disabled),
    Part('audit.json', 'Findings of nova-prio audit.', cloud_parts.audit),
    Part('partitions.json', 'Problems and measurements of the partitions of '
         'this host.', host_parts.read_partitions),
    Part('guests.json', 'UUIDs and CPUs of the guests on this host.',
         host_parts.list_guests),
    Part('log.txt', 'Last %d lines of nova-prio in each log file of Nova.'
         % logs.LINES, logs.read),
)
