# SPDX-License-Identifier: Apache-2.0

"""Live migration of guests with a priority, and claims on mix hosts.

A mix host has ``cpu_priority_mix_enable``. A partition is the cgroup of all
guests of one priority.

A destination with our driver claims for every instance that the driver
manages: all instances with a priority and, with ``cpu_priority_mix_enable``,
all others. Stock Nova claims only for an instance with a NUMA topology. For an
instance with a priority, the destination also tells the source on which CPUs
the emulator threads must run. The source then adds the partition and these
CPUs to the domain XML that it sends.
"""

from nova import exception
from nova import objects

from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guest_xml


class LiveMigration:
    """Extend a LibvirtDriver, its next base class, for live migrations."""

    def check_can_live_migrate_destination(
            self, context, instance, src_compute_info, *args, **kwargs):
        """Check this host, and tell the source which CPUs of this host to use.

        Let Nova claim for every instance that the driver manages, also
        without a NUMA topology: for those with a priority and, with
        ``cpu_priority_mix_enable``, for all.

        :returns: LibvirtLiveMigrateData of Nova, with more fields set
        :raises nova.exception.MigrationPreCheckError: if the guest would lose
            its priority on this host
        """
        priority = demand.get_priority(instance)
        if priority is not None:
            self._check_destination(instance, priority, src_compute_info)
        data = super().check_can_live_migrate_destination(
            context, instance, src_compute_info, *args, **kwargs)
        if not self.manages(instance):
            return data
        # The source returns these data. If both values are true then, Nova
        # claims on this host. The source removes the second value if it cannot
        # ask this host to drop a claim.
        data.dst_supports_numa_live_migration = True
        data.src_supports_numa_live_migration = True
        if priority is not None:
            # This object tells the source that this host runs our driver. Only
            # for low priority, the source uses these CPUs. Without cell_pins,
            # Nova ignores the object.
            data.dst_numa_info = objects.LibvirtLiveMigrateNUMAInfo(
                cpu_pins={}, emulator_pins=self.get_low_emulator_cpus())
        # With mix (cpu_priority_mix_enable), a low-priority guest also floats
        # on the dedicated CPUs.
        if (priority == cpu_capacity.LOW and self.mix and
                instance.numa_topology is None):
            data.dst_cpu_shared_set_info = self.get_floating_cpus()
        return data

    def _check_destination(self, instance, priority, src_compute_info):
        """Refuse an instance that would not keep its priority on this host.

        First let libvirt start a test guest of each priority. A partition is
        the cgroup of all guests of one priority.

        :param priority: 'high' or 'low'
        :param src_compute_info: nova.objects.ComputeNode of the source, as a
            primitive
        """
        self.probe_partitions()
        if self.partitions.problem:
            raise exception.MigrationPreCheckError(
                reason=self.partitions.problem)
        # The source sends the XML. Without our driver there, the guest would
        # have no partition. A high-priority guest has its pinned CPUs anyway,
        # but one with low priority would compete with others as their equal.
        # Only a host with our driver has this key.
        if priority == cpu_capacity.LOW and (
                host_report.STATS_KEY not in (
                    src_compute_info.get('stats') or {})):
            raise exception.MigrationPreCheckError(reason=(
                'host %s does not run the compute driver of nova-prio now, '
                'and would send the low-priority instance without its '
                'partition; migrate it cold' % instance.host))

    def check_can_live_migrate_source(self, context, instance,
                                      dest_check_data, *args, **kwargs):
        """Refuse a destination that would ignore the priority.

        :raises nova.exception.MigrationPreCheckError: if the guest has a
            priority, and the destination does not run our driver
        """
        # A destination with our driver sets dst_numa_info before this check.
        # Stock Nova sets it later.
        if ('dst_numa_info' not in dest_check_data and
                demand.get_priority(instance) is not None):
            raise exception.MigrationPreCheckError(reason=(
                'the destination does not run the compute driver of '
                'nova-prio, which the priority of the instance needs'))
        return super().check_can_live_migrate_source(
            context, instance, dest_check_data, *args, **kwargs)

    def post_claim_migrate_data(self, context, instance, migrate_data, claim):
        """Hide the claim of a guest without a NUMA topology from the source.

        After a failure, a source that knows of the claim waits until this host
        drops it; without an answer, the rollback fails. Stock Nova does not
        claim for a guest without a topology, and never waits. A hidden claim
        is dropped by nova_prio.compute.live_migration_watcher.

        The source takes the field src_supports_numa_live_migration, if it is
        true, as the sign of a claim.
        """
        if claim.claimed_numa_topology is None:
            del migrate_data.src_supports_numa_live_migration
            return migrate_data
        return super().post_claim_migrate_data(
            context, instance, migrate_data, claim)

    def pre_live_migration(self, context, instance, block_device_info,
                           network_info, disk_info, migrate_data):
        """Prepare this host, unless another instance has the CPUs.

        :raises nova.exception.MigrationError: in this case; Nova then rolls
            back, and the guest goes on at the source
        """
        priority = demand.get_priority(instance)
        # A low-priority guest may float on dedicated CPUs of others. For any
        # other guest, ask the start gate, which refuses a guest on CPUs that
        # this host keeps for another instance.
        if priority != cpu_capacity.LOW and 'dst_numa_info' in migrate_data:
            self.priority_host.gate.check_arrival(
                instance, migrate_data.dst_numa_info)
        return super().pre_live_migration(
            context, instance, block_device_info, network_info, disk_info,
            migrate_data)

    def rollback_live_migration_at_destination(
            self, context, instance, *args, **kwargs):
        """Clean up this host, but do not save changes of the instance.

        Nova has applied the migration context of this host to the instance. If
        the disks are not shared, Nova also saves the instance, maybe after the
        source has. Then the database would have the CPUs of this host, and the
        source would give the CPUs of the running guest away. Therefore forget
        these changes.
        """
        # Maybe libvirt could not start the guest in the cgroup of its
        # priority: let the next run of the periodic task test this.
        if demand.get_priority(instance) is not None:
            self.partitions.record_failed_start()
        instance.obj_reset_changes(recursive=True)
        super().rollback_live_migration_at_destination(
            context, instance, *args, **kwargs)

    def _live_migration_operation(self, context, instance, dest,
                                  block_migration, migrate_data, guest,
                                  *args, **kwargs):
        """Migrate as Nova does, with the XML of the instance's priority.

        The XML gets the partition, which is the cgroup of all guests of one
        priority, and the CPUs of the emulator threads.
        """
        priority = demand.get_priority(instance)
        if priority is not None:
            emulator_cpus = None  # keeps those that Nova has set
            if priority == cpu_capacity.LOW and instance.numa_topology is None:
                # Nova rewrites emulator pins only for a NUMA topology. Our
                # driver at the destination has sent its CPUs for emulators.
                emulator_cpus = migrate_data.dst_numa_info.emulator_pins
            stock_migrate = guest.migrate

            def migrate(*args, destination_xml, **kwargs):
                """Migrate with the settings of the priority in the XML."""
                return stock_migrate(
                    *args, destination_xml=guest_xml.apply_priority(
                        destination_xml, priority, emulator_cpus), **kwargs)

            # Nova's method makes the XML, and calls guest.migrate with it.
            guest.migrate = migrate
        return super()._live_migration_operation(
            context, instance, dest, block_migration, migrate_data, guest,
            *args, **kwargs)
