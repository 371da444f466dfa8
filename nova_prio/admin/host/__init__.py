# SPDX-License-Identifier: Apache-2.0

"""Co-location on a host that is in use: turned on, proven, taken back.

What will be is calculated first (``plan``, with what the host alone knows
from ``local``), compared with what came of it (``verify``), and undone when
it is no longer wanted (``drain``).

In all of these, ``context`` is a nova.context.RequestContext of no cell,
``client`` a nova.scheduler.client.report.SchedulerReportClient, ``view`` the
``audit.views.HostView`` of the host, ``is_marked`` tells whether an aggregate
of the host is one for priority instances, ``is_up`` whether its nova-compute
is, ``cpus`` are ``capacity.HostCPUs`` as they are to be, and ``plan`` is a
``rows.Plan`` that was kept, or None.
"""
