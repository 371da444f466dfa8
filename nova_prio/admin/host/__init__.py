# SPDX-License-Identifier: Apache-2.0

"""Turn co-location on and off on a host that is in use.

``plan`` calculates the effect, with the data of ``local_checks``; ``verify``
compares the plan with the result; ``removal`` undoes the plan.

In all modules, ``context`` targets no cell, ``view`` has the records of the
host, and ``planned_cpus`` are the CPUs of the plan.
"""


class HostRefused(ValueError):
    """A host or a plan that cannot be used; the text is one sentence."""
