# SPDX-License-Identifier: Apache-2.0

"""The compute driver: Nova's libvirt driver, extended for priorities.

Beside the work of Nova's driver, this driver

* checks the configuration at start, and probes the partitions,
* reads the guests of libvirt before each recount,
* reports the inventories and traits of a priority host to Placement,
* gives each guest the CPUs and the partition of its priority.

Each override calls Nova's method and changes its result. It changes nothing
for ordinary guests on a host without ``cpu_priority_mix_enable``.
"""

import copy
import threading

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
from nova_prio.compute import config_checks
from nova_prio.compute import containment
from nova_prio.compute import resource_tracker
from nova_prio.compute import usage
from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.model import inventory
from nova_prio.placement import traits as prio_traits
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import guests
from nova_prio.virt.libvirt import live_migration
from nova_prio.virt.libvirt import partitions

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_PROBE = 'probe the partitions'


class PriorityLibvirtDriver(live_migration.LiveMigration,
                            driver.LibvirtDriver):
    """Reports priority CPUs, and places guests by their priority.

    ``steps`` contains the errors of this package. The resource tracker keeps
    ``ledger``, a UsageLedger, and uses ``oversold`` and ``healing``.
    ``is_overfull`` tells whether the VCPU inventory of a host without mix was
    raised to the allocations. ``is_stopping`` is set when nova-compute stops.
    """

    @contract.exit_if_refused()
    def __init__(self, virtapi, read_only=False):
        hooks.install_tracker(resource_tracker.PriorityResourceTracker,
                              claims.PriorityClaim,
                              claims.PriorityMoveClaim)
        super().__init__(virtapi, read_only=read_only)
        self.steps = containment.Steps()
        self.ledger = usage.UsageLedger()
        self.oversold = usage.OversoldWarnings()
        self.healing = allocation_healing.AllocationHealing()
        self.partitions = partitions.Partitions(self._host)
        self.guests = guests.HostGuests(self._host, self.steps)
        self.is_overfull = False
        self.is_stopping = threading.Event()
        self._warned_of_memory = False

    @contract.exit_if_refused()
    def init_host(self, host):
        """Start the driver, unless the configuration is wrong.

        :raises SystemExit: with one log line that names option and remedy
        """
        with self.steps.contain('check the configuration',
                                passes=(contract.StartRefused,)):
            for problem in config_checks.find_problems(CONF):
                raise contract.StartRefused(problem)
        super().init_host(host)
        with self.steps.contain('log the configuration', refuses=False):
            self._log_configuration()
        with self.steps.contain(_PROBE):
            self.probe_partitions()

    def cleanup_host(self, host):
        """Stop the driver, and the threads that wait for ``is_stopping``."""
        self.is_stopping.set()
        super().cleanup_host(host)

    def _log_configuration(self):
        dedicated, shared = (
            hardware.format_cpu_spec(cpus or ()) or 'none' for cpus in (
                hardware.get_cpu_dedicated_set(), self._get_vcpu_available()))
        LOG.info(
            'nova_prio %s: dedicated CPUs %s, shared CPUs %s, '
            'cpu_allocation_ratio %s, cpu_priority_mix_enable %s, '
            'low_emulator_set %s', contract.get_own_release(), dedicated,
            shared, CONF.cpu_allocation_ratio or 'as Placement has it',
            str(self.mix).lower(),
            CONF.nova_prio.low_emulator_set or 'not set')

    def probe_partitions(self):
        """Probe both partitions, on CPUs without high-priority guests.

        On a host without shared CPUs, the probes use the dedicated CPUs.
        """
        cpus = self._get_vcpu_available() or self._get_pcpu_available()
        self.partitions.probe({
            capacity.HIGH: cpus,
            capacity.LOW: self.get_low_emulator_cpus() or cpus})

    def get_available_resource(self, nodename):
        """Report as Nova does, after a look at partitions and guests."""
        with self.steps.contain(_PROBE):
            if self.partitions.needs_probe or self.steps.has_failed(_PROBE):
                self.probe_partitions()
        with self.steps.contain('read the guests of libvirt',
                                passes=(exception.HypervisorUnavailable,)):
            self.guests.read_guests(self._get_pcpu_available())
        return super().get_available_resource(nodename)

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Report the inventories and the traits of a priority host.

        If the inventories cannot be calculated, a mix host must keep the VCPU
        and MEMORY_MB inventories that it reported before. The VCPU inventory
        of stock Nova has no room for low-priority instances.
        """
        before = provider_tree.data(nodename).inventory
        super().update_provider_tree(
            provider_tree, nodename, allocations=allocations)
        self.is_overfull = False
        with self.steps.contain('calculate the inventory') as outcome:
            self._report_priority(provider_tree, nodename)
        if outcome.problem and CONF.cpu_priority_mix_enable:
            provider_tree.update_inventory(nodename, {
                **provider_tree.data(nodename).inventory,
                **{name: before[name] for name in (orc.VCPU, orc.MEMORY_MB)
                   if name in before}})
        self.provider_tree = copy.deepcopy(provider_tree)

    def _report_priority(self, provider_tree, nodename):
        provider = provider_tree.data(nodename)
        traits = prio_traits.list_for_host(
            self.mix, prio_traits.CPU_PRIORITY_DISABLED in provider.traits)
        stock = provider.inventory
        reported = inventory.build_priority_inventories(
            stock, self.get_host_cpus(stock), self.ledger)
        if (self.mix and not self._warned_of_memory and
                stock[orc.MEMORY_MB]['allocation_ratio'] > 1.0):
            self._warned_of_memory = True
            LOG.warning(
                'Memory is not oversold on a host with '
                'cpu_priority_mix_enable: the allocation ratio %s is lowered '
                'to 1.0. Set [DEFAULT] ram_allocation_ratio to 1.0.',
                stock[orc.MEMORY_MB]['allocation_ratio'])
        provider_tree.remove_traits(
            nodename, prio_traits.CPU_PRIORITY, prio_traits.CPU_PRIORITY_MIX)
        provider_tree.add_traits(nodename, *traits)
        provider_tree.update_inventory(nodename, reported)
        # Without mix, only instances beyond the inventory raise the total.
        self.is_overfull = not self.mix and orc.VCPU in stock and (
            reported[orc.VCPU]['total'] > stock[orc.VCPU]['total'])

    @property
    def mix(self):
        """Whether low-priority instances float on dedicated CPUs too."""
        return CONF.cpu_priority_mix_enable

    def manages(self, instance):
        """Return whether this package may write the records of an instance.

        The records are its allocations, its migrations and the claims of its
        live migrations. Stock Nova handles those of all other instances.

        :param instance: nova.objects.Instance
        """
        return self.mix or flavor_specs.get_priority(
            instance.flavor.extra_specs) is not None

    def get_host_cpus(self, inventories):
        """Return the ``capacity.HostCPUs`` of this host.

        :param inventories: dict, resource class -> inventory, of the host's
            resource provider; its VCPU ratio is the one in force
        """
        ratio = self._get_allocation_ratios(inventories)[orc.VCPU]
        return capacity.HostCPUs(
            dedicated=frozenset(self._get_pcpu_available()),
            shared=frozenset(self._get_vcpu_available()),
            ratio=capacity.parse_ratio(ratio),
            mix=self.mix)

    def get_floating_cpus(self):
        """Return the CPUs of low-priority guests on a mix host, a set."""
        return self._get_vcpu_available() | self._get_pcpu_available()

    def get_low_emulator_cpus(self):
        """Return the CPUs of emulator and I/O threads of low guests, a set."""
        return config_checks.get_low_emulator_set(
            CONF) or self._get_vcpu_available()

    def _get_guest_numa_config(self, instance_numa_topology, flavor,
                               image_meta):
        config = super()._get_guest_numa_config(
            instance_numa_topology, flavor, image_meta)
        if (flavor_specs.EXTRA_SPEC not in flavor.extra_specs or
                flavor_specs.get_priority(flavor.extra_specs) != capacity.LOW):
            return config
        if config.cputune is not None:
            if self.mix:
                self._float_in_cells(config.cputune, instance_numa_topology)
            self._place_threads(config.cputune)
        elif self.mix:
            config = config._replace(cpuset=self.get_floating_cpus())
        return config

    def _float_in_cells(self, cputune, instance_numa_topology):
        """Let each vCPU float on all CPUs of its host cell."""
        host_cells = {cell.id: cell
                      for cell in self._get_host_numa_topology().cells}
        dedicated = {vcpu: host_cells[cell.id].pcpuset
                     for cell in instance_numa_topology.cells
                     for vcpu in cell.cpuset}
        for pin in cputune.vcpupin:
            pin.cpuset = pin.cpuset | dedicated[pin.id]

    def _place_threads(self, cputune):
        """Place the emulator and I/O threads of a low guest with a topology.

        Without low_emulator_set, the threads stay on the shared CPUs of the
        host cells. If these cells have none, use all shared CPUs.
        """
        cpus = (config_checks.get_low_emulator_set(CONF) or
                cputune.emulatorpin.cpuset or self._get_vcpu_available())
        # Nova 31 gives its guests no I/O threads.
        for pin in (cputune.emulatorpin,
                    *getattr(cputune, 'iothreadpin', ())):
            pin.cpuset = set(cpus)

    def _get_guest_xml(self, context, instance, *args, **kwargs):
        xml = super()._get_guest_xml(context, instance, *args, **kwargs)
        if flavor_specs.EXTRA_SPEC not in instance.flavor.extra_specs:
            return xml
        priority = flavor_specs.get_priority(instance.flavor.extra_specs)
        threads = None
        if priority == capacity.LOW and instance.numa_topology is None:
            threads = self.get_low_emulator_cpus()
        return guest_xml.apply_priority(xml, priority, threads)

    def rebuild(self, context, instance, *args, evacuate=False, **kwargs):
        """Let a rebuild on the same host use the CPUs of the instance.

        After a failed move, Nova keeps the migration context of the other
        host, and would start the guest on the CPUs that it names.

        :raises NotImplementedError: always, as Nova's libvirt driver does
        """
        if not evacuate:
            instance.migration_context = None
        return super().rebuild(
            context, instance, *args, evacuate=evacuate, **kwargs)

    def _create_guest(self, context, xml, instance, *args, **kwargs):
        """Start a guest; if one with a priority fails, doubt the partitions.

        Nova starts all its guests here: new and moved ones, and those after a
        hard reboot, a resume or a rescue.
        """
        try:
            return super()._create_guest(
                context, xml, instance, *args, **kwargs)
        except Exception:
            if flavor_specs.get_priority(
                    instance.flavor.extra_specs) is not None:
                self.partitions.record_failed_start()
            raise
