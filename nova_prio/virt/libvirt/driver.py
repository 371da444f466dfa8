# SPDX-License-Identifier: Apache-2.0

"""The compute driver: Nova's libvirt driver, extended for priorities.

In addition to Nova's driver, this driver

* checks the configuration at start, and probes the partitions,
* reads the guests of libvirt before each recount, and measures the CPU time
  that low-priority guests can get,
* reports the inventories and traits of a priority host to Placement,
* gives each guest the CPUs and the partition of its priority.

A partition is the cgroup of all guests of one priority. A mix host has
``cpu_priority_mix_enable``: its low-priority guests also float on the
dedicated CPUs (:mod:`nova_prio.model.cpu_capacity`). A recount is one run of
Nova's periodic task that counts the resources of the host. The start gate lets
no guest start on a CPU that another instance has.

Each override calls Nova's method and changes its result. Ordinary guests on a
host without ``cpu_priority_mix_enable`` get the result of Nova's method.
"""

import contextlib
import threading

from nova.compute import task_states
import nova.conf
from nova import exception
from nova.virt import hardware
from nova.virt.libvirt import driver
import os_resource_classes as orc
from oslo_log import log as logging

from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.compute import allocation_healing
from nova_prio.compute import claims
from nova_prio.compute import priority_host
from nova_prio.compute import resource_tracker
from nova_prio.compute import start_gate
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.model import traits as prio_traits
from nova_prio.virt import demand
from nova_prio.virt.libvirt import compute_checks
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import live_migration
from nova_prio.virt.libvirt import partitions
from nova_prio.virt import numa

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_PROBE = 'probe the partitions'


class PriorityLibvirtDriver(live_migration.LiveMigration,
                            driver.LibvirtDriver):
    """The libvirt driver of a priority host.

    ``priority_host`` is what the host has sold. The resource tracker fills it,
    and calls ``healing``. ``is_stopping`` is set when nova-compute stops.
    """

    @contract.exit_if_refused()
    def __init__(self, virtapi, read_only=False):
        """Install our tracker and claims, and make the priority_host."""
        hooks.install_tracker(resource_tracker.PriorityResourceTracker,
                              claims.PriorityClaim,
                              claims.PriorityMoveClaim)
        super().__init__(virtapi, read_only=read_only)
        self.priority_host = priority_host.PriorityHost(
            self._host, self.get_host_cpus)
        # Shorter names for the methods of this class. ``steps`` contains the
        # errors of the actions of this package, each of which is a step.
        self.steps = self.priority_host.steps
        self.partitions = self.priority_host.partitions
        self.guests = self.priority_host.guests
        self.healing = allocation_healing.AllocationHealing()
        self.is_stopping = threading.Event()
        self._warned_of_memory_ratio = False

    @contract.exit_if_refused()
    def init_host(self, host):
        """Start the driver, unless the configuration is wrong.

        If a later step (a ``with`` block) fails, its error is logged. The
        service starts, but after some errors refuses priority instances. A
        partition is the cgroup of all guests of one priority, and a leased CPU
        is kept for one instance. A recount is one run of the periodic task of
        nova-compute that counts the resources of the host. It leases the CPUs
        again, so that an error of the last step lasts only until then.

        :raises SystemExit: after a log line that names option and remedy
        """
        with self.steps.contain('check the configuration',
                                reraised=(contract.StartRefused,)):
            problems = compute_checks.find_problems(CONF)
            if problems:
                raise contract.StartRefused(problems[0])
        super().init_host(host)
        with self.steps.contain('log the options', refuse_on_error=False):
            self._log_configuration()
        with self.steps.contain(_PROBE):
            self.probe_partitions()
        with self.steps.contain('lease the CPUs of the running guests',
                                refuse_until_recount=True):
            self.priority_host.lease_cpus_of_guests(
                self._get_pcpu_available())

    def list_instance_uuids(self):
        """Return the UUIDs of all guests but the test guests of our probes.

        A probe lets libvirt start a test guest, and stops it again. On a busy
        host, a test guest of ``init_host`` may still run when nova-compute
        calls this method next. If its service is new in the database,
        nova-compute refuses to start beside any guest.
        """
        return [uuid for uuid in super().list_instance_uuids()
                if uuid not in partitions.PROBE_UUIDS.values()]

    def cleanup_host(self, host):
        """Stop the driver, and the threads that wait for ``is_stopping``."""
        self.is_stopping.set()
        super().cleanup_host(host)

    def _log_configuration(self):
        """Log the version and the options of this package."""
        dedicated = hardware.get_cpu_dedicated_set() or ()
        LOG.info(
            'nova_prio %s: dedicated CPUs %s, shared CPUs %s, '
            'cpu_allocation_ratio %s, cpu_priority_mix_enable %s, '
            'low_emulator_set %s, small pages %s',
            contract.get_own_release(),
            hardware.format_cpu_spec(dedicated) or 'none',
            hardware.format_cpu_spec(self._get_vcpu_available()) or 'none',
            CONF.cpu_allocation_ratio or 'as Placement has it',
            str(self.mix).lower(),
            CONF.nova_prio.low_emulator_set or 'not set',
            self._describe_small_pages())

    def _describe_small_pages(self):
        """Return a text: the limit of the memory of guests in small pages.

        Small pages are the memory that is not set aside for huge pages. Only
        with ``mix`` (cpu_priority_mix_enable) are they limited: otherwise,
        guests get what stock Nova admits.
        """
        if not numa.limits_small_pages(self.mix):
            return 'not limited'
        # Nothing is sold in this calculation: all memory but that of the host
        # is free, so that the free small pages are the limit.
        memory_mb = self._host.get_memory_mb_total()
        small = numa.get_small_pages(
            self._get_host_numa_topology(), memory_mb,
            memory_mb - CONF.reserved_host_memory_mb)
        if small is None:
            return 'not limited'
        return 'limited to %d MB' % small.free_mb

    def probe_partitions(self):
        """Let libvirt start a test guest in the partition of each priority.

        The test guests run on CPUs that no high-priority guest keeps busy, if
        there are any: on the shared CPUs, or else on CPUs of neither set. The
        one with low priority runs on low_emulator_set if that is set.

        Dedicated CPUs are the last choice. With cpu_power_management, Nova
        keeps idle ones offline: use only those that are online.
        """
        online = self._host.get_online_cpus()
        dedicated = self._get_pcpu_available()
        cpus = (self._get_vcpu_available() or online - dedicated or
                online & dedicated)
        self.partitions.probe({
            cpu_capacity.HIGH: cpus,
            cpu_capacity.LOW: self.get_low_emulator_cpus() or cpus})

    def probe_before_move(self, flavor):
        """Probe again whether guests with a priority start on this host.

        A probe lets libvirt start a test guest of each priority. Probe only if
        the instance that moves here has a priority. An error is logged, and
        the host then refuses priority instances.

        :param flavor: nova.objects.Flavor of the instance that moves here
        """
        with self.steps.contain(_PROBE):
            if flavor_specs.get_priority(flavor.extra_specs) is not None:
                self.probe_partitions()

    def get_available_resource(self, nodename):
        """Return Nova's result; first ask libvirt what the recount will need.

        The recount is the periodic count of the host's resources, which
        follows this call. Start test guests if necessary, read the guests, and
        measure the CPU time for low-priority guests. Nova calls this before it
        takes the lock of the tracker, so that no other call waits if libvirt
        hangs.

        :raises nova.exception.HypervisorUnavailable: if libvirt is gone; other
            errors of these steps are logged
        """
        with self.steps.contain(_PROBE):
            # If this step has failed in the previous run, repeat it.
            if self.partitions.needs_probe or self.steps.has_failed(_PROBE):
                self.probe_partitions()
        with self.steps.contain('read the guests of libvirt',
                                reraised=(exception.HypervisorUnavailable,)):
            self.guests.read_guests(dedicated=self._get_pcpu_available())
        # After an error of a step above, the host refuses priority instances.
        # They do not depend on this measurement.
        with self.steps.contain('measure the low supply',
                                refuse_on_error=False):
            # The CPUs where low-priority guests run: the shared CPUs and, with
            # cpu_priority_mix_enable, the dedicated ones.
            floating = self._get_vcpu_available()
            if self.mix:
                floating = self.get_floating_cpus()
            self.guests.measure_supply(floating)
        return super().get_available_resource(nodename)

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Report the inventories and the traits of a priority host.

        If this fails, a host with ``cpu_priority_mix_enable`` must keep the
        VCPU and MEMORY_MB inventories that it had before this call: Nova's own
        inventories count no dedicated CPUs as VCPU, and may overcommit memory.

        :param provider_tree: nova.compute.provider_tree.ProviderTree
        :param allocations: dict of Nova, UUID of a consumer -> its allocation;
            None unless Nova wants the driver to move allocations
        """
        before = provider_tree.data(nodename).inventory
        super().update_provider_tree(
            provider_tree, nodename, allocations=allocations)
        with self.steps.contain('calculate the inventory') as outcome:
            self._report_priority(provider_tree, nodename)
        # An error is logged, and is the problem of the outcome.
        if outcome.problem and CONF.cpu_priority_mix_enable:
            kept = provider_tree.data(nodename).inventory
            for name in before.keys() & {orc.VCPU, orc.MEMORY_MB}:
                kept[name] = before[name]
            provider_tree.update_inventory(nodename, kept)

    def _report_priority(self, provider_tree, nodename):
        """Replace Nova's inventories and our traits of this host.

        Warn once if Nova's option would overcommit memory. With ``mix``
        (cpu_priority_mix_enable), a host does not, because high-priority
        instances must not wait for memory that is swapped out.

        :param provider_tree: nova.compute.provider_tree.ProviderTree, with the
            inventories of Nova's driver; it is changed
        """
        provider = provider_tree.data(nodename)
        traits = prio_traits.list_for_host(
            self.mix, prio_traits.CPU_PRIORITY_DISABLED in provider.traits)
        stock = provider.inventory  # resource class -> inventory
        reported = self.priority_host.build_inventories(stock)
        if (self.mix and not self._warned_of_memory_ratio and
                stock[orc.MEMORY_MB]['allocation_ratio'] > 1.0):
            self._warned_of_memory_ratio = True
            LOG.warning(
                'Memory is not oversold on a host with '
                'cpu_priority_mix_enable: the allocation ratio %s is lowered '
                'to 1.0. Set [DEFAULT] ram_allocation_ratio to 1.0.',
                stock[orc.MEMORY_MB]['allocation_ratio'])
        provider_tree.remove_traits(
            nodename, prio_traits.CPU_PRIORITY, prio_traits.CPU_PRIORITY_MIX)
        provider_tree.add_traits(nodename, *traits)
        provider_tree.update_inventory(nodename, reported)

    @property
    def mix(self):
        """Whether low-priority instances also float on dedicated CPUs."""
        return CONF.cpu_priority_mix_enable

    def manages(self, instance):
        """Return whether this package may write the records of an instance.

        The records are its allocations, its migrations and the claims of its
        live migrations. Stock Nova handles those of all other instances. This
        package handles those of instances with a priority and, with ``mix``
        (``cpu_priority_mix_enable``), of all instances. During a resize, an
        instance has up to three flavors.

        :param instance: nova.objects.Instance
        """
        flavors = [getattr(instance, name) for name in (
            'flavor', 'old_flavor', 'new_flavor') if name in instance]
        return self.mix or any(
            flavor_specs.get_priority(flavor.extra_specs) is not None
            for flavor in flavors if flavor)

    def get_host_cpus(self, inventories):
        """Return the ``cpu_capacity.HostCPUs`` of this host.

        Its ``mix`` tells whether low-priority instances also float on the
        dedicated CPUs.

        :param inventories: dict, resource class -> inventory, of the host's
            resource provider; the VCPU inventory has the ratio in force
        """
        ratio = self._get_allocation_ratios(inventories)[orc.VCPU]
        return cpu_capacity.HostCPUs(
            dedicated=frozenset(self._get_pcpu_available()),
            shared=frozenset(self._get_vcpu_available()),
            ratio=cpu_capacity.parse_ratio(ratio),
            mix=self.mix)

    def get_floating_cpus(self):
        """Return the CPUs of low-priority guests on a mix host, a set."""
        return self._get_vcpu_available() | self._get_pcpu_available()

    def get_low_emulator_cpus(self):
        """Return the CPUs of low-priority guests' emulator and I/O threads.

        :returns: set of CPU numbers: low_emulator_set, or the shared CPUs
        """
        return compute_checks.get_low_emulator_set(
            CONF) or self._get_vcpu_available()

    def _get_guest_numa_config(self, instance_numa_topology, flavor,
                               image_meta):
        """Return Nova's settings with the CPUs of a low-priority guest.

        If ``mix`` is true (``cpu_priority_mix_enable``), the guest also floats
        on the dedicated CPUs. If not, its vCPUs stay where Nova has put them,
        on the shared CPUs. In both cases, its emulator and I/O threads run on
        low_emulator_set if this option is set, where no high-priority guest
        can starve them.

        :param instance_numa_topology: nova.objects.InstanceNUMATopology or
            None
        """
        config = super()._get_guest_numa_config(
            instance_numa_topology, flavor, image_meta)
        # An error of get_priority must not fail a guest without the extra
        # spec: look for it first.
        is_low = (
            flavor_specs.EXTRA_SPEC in flavor.extra_specs and
            flavor_specs.get_priority(flavor.extra_specs) == cpu_capacity.LOW)
        if not is_low:
            return config
        # If the guest has a NUMA topology, Nova sets the CPUs of each vCPU and
        # of the emulator threads in cputune, else those of all in cpuset.
        if config.cputune is not None:
            if self.mix:
                self._float_in_cells(config.cputune, instance_numa_topology)
            self._place_emulator_threads(config.cputune)
        elif self.mix:
            config = config._replace(cpuset=self.get_floating_cpus())
        return config

    def _float_in_cells(self, cputune, instance_numa_topology):
        """Let each vCPU also float on the dedicated CPUs of its host cell.

        Such a vCPU may run on each of these CPUs, beside the shared ones.

        :param cputune: LibvirtConfigGuestCPUTune of the guest; it is changed
        :param instance_numa_topology: nova.objects.InstanceNUMATopology, as
            fitted to the host: its cells have the ids of host cells
        """
        dedicated = {cell.id: cell.pcpuset
                     for cell in self._get_host_numa_topology().cells}
        for cell in instance_numa_topology.cells:
            for pin in cputune.vcpupin:
                if pin.id in cell.cpuset:
                    pin.cpuset = pin.cpuset | dedicated[cell.id]

    def _place_emulator_threads(self, cputune):
        """Set the CPUs of a low-priority guest's emulator and I/O threads.

        Without low_emulator_set, Nova's choice is right: the shared CPUs of
        the guest's host cells. If these cells have none, use all shared CPUs.

        :param cputune: LibvirtConfigGuestCPUTune of a guest with a topology;
            it is changed
        """
        cpus = (compute_checks.get_low_emulator_set(CONF) or
                cputune.emulatorpin.cpuset or self._get_vcpu_available())
        # Nova 31 gives its guests no I/O threads.
        pins = [cputune.emulatorpin]
        pins.extend(getattr(cputune, 'iothreadpin', ()))
        for pin in pins:
            pin.cpuset = set(cpus)

    def _get_guest_xml(self, context, instance, *args, **kwargs):
        """Return Nova's domain XML with the settings of the priority.

        If Nova's record has other CPUs than are leased to the instance, write
        the leased ones into the record first. Leased CPUs are those that this
        host keeps for it. An error of this step is only logged.
        """
        with self.steps.contain(start_gate.USE_LEASE, refuse_on_error=False):
            self.priority_host.gate.use_lease(instance)
        xml = super()._get_guest_xml(context, instance, *args, **kwargs)
        if flavor_specs.EXTRA_SPEC not in instance.flavor.extra_specs:
            return xml
        priority = demand.get_priority(instance)
        # The CPUs for emulator and I/O threads; None keeps those of Nova. With
        # a NUMA topology, _get_guest_numa_config has set them.
        threads = None
        if priority == cpu_capacity.LOW and instance.numa_topology is None:
            threads = self.get_low_emulator_cpus()
        return guest_xml.apply_priority(xml, priority, threads)

    def rebuild(self, context, instance, *args, evacuate=False, **kwargs):
        """Let a rebuild on the same host use the CPUs of the instance.

        An evacuation uses those of its claim. Before a rebuild, check whether
        its CPUs are leased to another instance, for which this host then keeps
        them.

        After a failed move, Nova keeps the migration context with CPUs of the
        other host, and would start the guest on CPUs with these numbers.

        :raises NotImplementedError: always: Nova's libvirt driver has no
            rebuild of its own, so nova-compute rebuilds in its default way
        """
        if not evacuate:
            instance.migration_context = None
            self._check_start(instance)
        return super().rebuild(
            context, instance, *args, evacuate=evacuate, **kwargs)

    # The start gate refuses to start a guest on CPUs that are leased to
    # another instance. Ask it before Nova destroys or undefines a guest.

    def _check_start(self, instance):
        """Refuse a start on CPUs that are leased to another instance.

        :raises nova.exception.InstanceFaultRollback: the instance then keeps
            its state
        """
        try:
            self.priority_host.gate.check(instance)
        except start_gate.CPUsLeased as refused:
            raise exception.InstanceFaultRollback(inner_exception=refused)

    def _hard_reboot(self, context, instance, *args, **kwargs):
        """Start a guest again, also one that was off.

        Nova destroys a running guest first: check before that whether its
        CPUs are leased to another instance.

        :raises nova_prio.compute.start_gate.CPUsLeased: if they are
        """
        self.priority_host.gate.check(instance)
        return super()._hard_reboot(context, instance, *args, **kwargs)

    def resume(self, context, instance, *args, **kwargs):
        """Start a suspended guest with its saved memory."""
        self._check_start(instance)
        return super().resume(context, instance, *args, **kwargs)

    def power_off(self, instance, *args, **kwargs):
        """Stop a guest; a rescue or a rebuild then starts it again.

        Before a rescue, check whether its CPUs are leased to another instance.
        A rebuild has checked this, but Nova has restored the CPUs of its
        record since: write the leased ones into the record, in case the
        rebuild fails before the start.

        :raises nova_prio.compute.start_gate.CPUsLeased: if another instance
            has the CPUs
        """
        if instance.task_state == task_states.RESCUING:
            self.priority_host.gate.check(instance)
        elif instance.task_state == task_states.REBUILDING:
            with self.steps.contain(start_gate.USE_LEASE,
                                    refuse_on_error=False):
                self.priority_host.gate.use_lease(instance)
        return super().power_off(instance, *args, **kwargs)

    def unrescue(self, context, instance, *args, **kwargs):
        """Start a guest with its own image after a rescue.

        Nova destroys the rescue guest first: check before that whether the
        CPUs are leased to another instance.

        :raises nova_prio.compute.start_gate.CPUsLeased: if they are
        """
        self.priority_host.gate.check(instance)
        return super().unrescue(context, instance, *args, **kwargs)

    def _create_guest(self, context, xml, instance, power_on=True,
                      pause=False, **kwargs):
        """Start a guest, unless its CPUs are leased to another instance.

        The start gate checks this, and keeps the lease of the instance, which
        is the CPUs that the host keeps for it, until the start has ended. If a
        guest with a priority does not start, libvirt may be unable to start
        any of this priority. Let the next run of the periodic task find this
        out: it then starts a test guest of each priority.

        Nova calls this for each new or moved guest, and for each guest after a
        hard reboot, a resume or a rescue.
        """
        gate = self.priority_host.gate
        try:
            with contextlib.ExitStack() as stack:
                # A guest that is only defined, and stays off, uses no CPUs.
                if power_on or pause:
                    stack.enter_context(gate.starting(instance, CONF.host))
                return super()._create_guest(
                    context, xml, instance, power_on=power_on, pause=pause,
                    **kwargs)
        except Exception:
            if demand.get_priority(instance) is not None:
                self.partitions.record_failed_start()
            raise
