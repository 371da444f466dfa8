# SPDX-License-Identifier: Apache-2.0

"""Turn co-location on and off on a host that is in use.

``plan`` calculates the effect, with the data of ``local_checks``; ``verify``
compares the plan with the result; ``drain`` undoes the plan.

In all modules, ``context`` is a nova.context.RequestContext without a cell,
``client`` a nova.scheduler.client.report.SchedulerReportClient, ``view`` the
``audit.host_view.HostView`` of the host, ``planned_cpus`` the
``capacity.HostCPUs`` of the plan, and ``plan`` a ``plan_format.SavedPlan`` or
None.
"""


class HostRefused(ValueError):
    """A host or a plan that cannot be used; the text is one sentence."""
