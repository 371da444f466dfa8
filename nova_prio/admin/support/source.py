# SPDX-License-Identifier: Apache-2.0

"""The sources that the parts of a bundle read."""

from __future__ import annotations

from collections import abc
import dataclasses
import functools
import typing

from nova_prio.admin import host_inventory
from nova_prio.virt import driver_alias

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report
    from oslo_config import cfg


class Unavailable(Exception):
    """A part has no source here; the text is a sentence without a period."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Nova's configuration and databases, and Placement.

    ``context`` targets no cell. ``make_client`` returns the
    SchedulerReportClient; it may fail if Placement is not configured.
    """

    conf: cfg.ConfigOpts
    context: nova_context.RequestContext
    make_client: abc.Callable[[], report.SchedulerReportClient]

    @property
    def is_compute(self) -> bool:
        """Whether the configuration is that of a priority host."""
        return self.conf.compute_driver == driver_alias.DRIVER

    @property
    def has_databases(self) -> bool:
        """Whether the configuration names Nova's databases."""
        return bool(self.conf.api_database.connection)

    def require_compute(self) -> None:
        """Raise Unavailable if the host is no priority host."""
        if not self.is_compute:
            raise Unavailable(
                "[DEFAULT] compute_driver is '%s', not '%s'; run this command "
                'on the compute host as well'
                % (self.conf.compute_driver, driver_alias.DRIVER))

    def require_databases(self) -> None:
        """Raise Unavailable without Nova's databases."""
        if not self.has_databases:
            raise Unavailable(
                '[api_database] connection is not set, as on a compute host; '
                'run this command where nova-manage runs as well')

    @functools.cached_property
    def hosts(self) -> tuple[list[host_inventory.HostCapacity], list[str]]:
        """The hosts, and the UUIDs of the cells that do not answer.

        :raises Unavailable: without Nova's databases
        """
        self.require_databases()
        return host_inventory.list_hosts(self.context)
