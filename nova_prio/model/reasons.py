# SPDX-License-Identifier: Apache-2.0

"""The reasons for which a host refuses an instance.

Rows, floating CPUs and mix hosts are explained in
:mod:`nova_prio.model.cpu_capacity`, guests on stale CPU sets, orphan guests
and partitions in :mod:`nova_prio.model.capacity_report`.

The build of doc/source/admin/refusals.rst lists the reasons of each dict.
"""

import typing


class Reason(typing.NamedTuple):
    """The text of a reason for the log, and its cause and remedy for the docs.

    ``text`` is a format for the values of a Refusal. ``cause`` adds to the
    text. ``cause`` and ``remedy`` are reStructuredText.
    """

    text: str
    cause: str
    remedy: str


#: dict, name to Reason, of the filter alone
FILTER = {
    'no_report': Reason(
        text='the host reports no priority CPUs',
        cause='The host runs another driver, or nova-compute has not updated '
              'the host since it started.',
        remedy='Set ``compute_driver = prio.PriorityLibvirtDriver`` on the '
               'host.'),
    'unreadable_report': Reason(
        text='%s',
        cause='The report of the host has the fault that the text names. Such '
              'a host takes no instance.',
        remedy='Install the same major version on compute and scheduler '
               'hosts.'),
    'unreadable_host': Reason(
        text='%s: %s',
        cause='The filter failed with this exception. The log has the '
              'traceback at ERROR, once for each host and type of exception. '
              "An ordinary instance is refused only if Nova's own filter "
              'refuses it.',
        remedy='Restart nova-compute. If the error stays, report the '
               'traceback.'),
    'not_a_priority_host': Reason(
        text='no aggregate of the host has priority_mix=true',
        cause='A priority instance may use only hosts in such an aggregate.',
        remedy='Add the host to such an aggregate.'),
    'not_for_ordinary': Reason(
        text='an aggregate of the host has priority_ordinary=false, which '
             'keeps new ordinary instances off',
        cause="Placement's copy of the aggregates is out of date.",
        remedy='Run ``nova-manage placement sync_aggregates``.'),
    'no_pcpu_candidate': Reason(
        text='no allocation candidate of the host holds as many PCPU as the '
             'instance has dedicated CPUs',
        cause='Placement offers the host only with VCPU instead of PCPU.',
        remedy='Set ``[workarounds] disable_fallback_pcpu_query = true``.'),
    'no_threads': Reason(
        text='the instance requires thread siblings, and the host has none',
        cause='The instance has ``hw:cpu_thread_policy=require``.',
        remedy='Use hosts with SMT.'),
    'no_numa_topology': Reason(
        text='the instance has a NUMA topology, and the host has none',
        cause='Each pinned instance has a NUMA topology.',
        remedy='Use hosts that report a NUMA topology.'),
    'other_cell': Reason(
        text='the host is in another cell than the instance, and Nova loses '
             'the NUMA topology and the pinned CPUs of an instance that moves '
             'to another cell',
        cause='Without this refusal, the guest would run unpinned on the '
              'shared CPUs. It affects instances with a priority, and mix '
              'hosts.',
        remedy='Use hosts in the cell of the instance.'),
    'no_ratio': Reason(
        text='the allocation ratios of the host are not known yet',
        cause='nova-compute has not reported the ratios yet.',
        remedy='Wait for the next update of the host.'),
    'numa_topology': Reason(
        text='the NUMA topology of the instance does not fit on the host',
        cause='The rows have enough capacity, but no host cell fits a guest '
              'cell. A guest cell needs CPUs of its class, thread siblings, '
              'memory, pages, PCI devices and networks. A pinned instance is '
              'one guest cell, unless ``hw:numa_nodes`` says otherwise.',
        remedy='Use other hosts, or another NUMA topology.'),
}

#: dict, name to Reason, of both the filter and the claim
FILTER_AND_CLAIM = {
    'problem': Reason(
        text='%s',
        cause='The named step of this package failed in nova-compute, which '
              'does not know which CPUs are free. It claims for ordinary '
              'instances as in stock Nova. Or the records of an instance '
              'contradict the leases of the host (:doc:`leases`), which then '
              'also takes no ordinary instance with pinned CPUs.',
        remedy='If a step failed, report the traceback in the log of '
               'nova-compute. Otherwise, give the named instance other CPUs.'),
    'no_partition': Reason(
        text='%s',
        cause='libvirt gave this answer, and cannot start guests in the '
              'partition of high or low priority. Ordinary instances are not '
              'affected.',
        remedy='Run ``nova-prio-host prepare`` on the host (:doc:`host`). '
               'The next update of the host finds the partitions.'),
    'whole_cores': Reason(
        text='low-priority instances float on the dedicated CPUs of the host, '
             'so it cannot take a real-time instance or one with '
             'hw:cpu_thread_policy=isolate',
        cause='Such an instance needs whole cores of its own.',
        remedy='Use hosts without ``cpu_priority_mix_enable``.'),
    'memory': Reason(
        text='the host has %d MB of memory free, without overcommit; the '
             'instance needs %d MB',
        cause='No high-priority instance gets oversold memory. On a mix host, '
              'no instance does.',
        remedy='Use other hosts.'),
    'small_pages': Reason(
        text='the host has %d of %d MB of its memory in small pages free; the '
             'instance needs %d MB in small pages',
        cause='The other memory of the mix host is in huge pages, which an '
              'instance gets only with ``hw:mem_page_size``. If the host has '
              'sold too much, no memory is free.',
        remedy='Use other hosts, a flavor with huge pages, or smaller pools '
               'of huge pages.'),
    'too_many_vcpus': Reason(
        text='the instance has more vCPUs than the host has floating CPUs',
        cause='The limit is for low-priority instances.',
        remedy='Use larger hosts.'),
    'too_many_shared_vcpus': Reason(
        text='the instance has more shared vCPUs than the host has shared '
             'CPUs',
        cause='The limit is for ordinary and mixed-policy instances on mix '
              'hosts. An instance that was on the host before stays.',
        remedy='Use hosts with a larger ``cpu_shared_set``, or a smaller '
               'flavor.'),
    'high_capacity': Reason(
        text='the high row has %d of %d vCPUs free, %d are needed%s',
        cause='Other instances are pinned on the dedicated CPUs, or guests on '
              'stale CPU sets float there (:doc:`changing`). The text names '
              'the orphan guests among them, such as a libvirt domain of an '
              'operator.',
        remedy='Use other hosts or a larger ``cpu_dedicated_set``. Hard '
               'reboot the guests on stale CPU sets. Pin an orphan guest to '
               'other CPUs with ``virsh vcpupin`` and ``virsh emulatorpin``, '
               'or shut it down.'),
    'low_capacity': Reason(
        text='the low row has %d of %d vCPUs free, %d are needed',
        cause='Low-priority instances and the floating vCPUs of all other '
              'instances draw from this row.',
        remedy='Use other hosts, or a higher ``cpu_allocation_ratio``.'),
    'ordinary_capacity': Reason(
        text='the ordinary row has %d of %d vCPUs free, %d are needed',
        cause='Instances without low priority use the shared CPUs of a mix '
              'host.',
        remedy='Use other hosts, or a larger ``cpu_shared_set``.'),
}

#: dict, name to Reason, of the claim alone
CLAIM = {
    'oversold': Reason(
        text='the host has sold more vCPUs than it may, and takes no further '
             'ones until they fit',
        cause='The host is no mix host. It refuses ordinary instances, too.',
        remedy='Migrate instances away, or restore the CPU sets and the '
               'ratio (:doc:`changing`).'),
    'disabled': Reason(
        text='the host is disabled for priority instances, until "nova-prio '
             'host enable"',
        cause='``nova-prio host disable`` has disabled the host.',
        remedy='Use other hosts, or run ``nova-prio host enable`` '
               '(:doc:`disabling`).'),
}

REASONS = FILTER | FILTER_AND_CLAIM | CLAIM
