# SPDX-License-Identifier: Apache-2.0

"""Turn co-location on and off on a host that is in use.

Co-location means that low-priority guests also run on the dedicated CPUs of a
mix host. :mod:`nova_prio.model.cpu_capacity` explains mix hosts, and the rows
of their capacity. A guest floats on a CPU if it may run there, but is not
pinned to it. An orphan guest runs although its instance is not on the host.

``plan_rows`` calculates the effect, with the data of ``local_checks``;
``verify`` compares the plan with the result; ``removal`` undoes the plan.

In all modules, ``context`` targets no cell, ``view`` has the records of the
host, and ``planned_cpus`` are the CPUs of the plan.
"""


class HostRefused(ValueError):
    """A host or a plan that cannot be used; the text is one sentence."""
