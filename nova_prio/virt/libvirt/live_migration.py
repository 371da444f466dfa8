# SPDX-License-Identifier: Apache-2.0

"""Live migration of guests with a priority, and claims on mix hosts.

A destination with our driver claims for every instance that the driver
manages: those with a priority and, with ``cpu_priority_mix_enable``, all
others. Stock Nova claims only for an instance with a NUMA topology. For an
instance with a priority, the destination also tells the source where the
emulator threads must run. The source then sends the XML of the priority.
"""

from nova import exception
from nova import objects

from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.virt.libvirt import guest_xml


class LiveMigration:
    """What a LibvirtDriver does otherwise when guests migrate live.

    Stands before it in the order of the bases of our driver.
    """

    def check_can_live_migrate_destination(
            self, context, instance, src_compute_info, *args, **kwargs):
        """Tell the source where the guest may float here.

        Nova claims for every instance that the driver manages, also for one
        without a NUMA topology. All others migrate as with stock Nova.

        :raises nova.exception.MigrationPreCheckError: if the priority of the
            guest would not be kept here
        """
        priority = flavor_specs.get_priority(instance.flavor.extra_specs)
        if priority is not None:
            self._check_destination(instance, priority, src_compute_info)
        data = super().check_can_live_migrate_destination(
            context, instance, src_compute_info, *args, **kwargs)
        if not self.manages(instance):
            return data
        # A source with stock Nova says nothing of its own for most guests, and
        # sends back what it got.
        data.dst_supports_numa_live_migration = True
        data.src_supports_numa_live_migration = True
        if priority is not None:
            # Without cell_pins, Nova itself reads none of it.
            data.dst_numa_info = objects.LibvirtLiveMigrateNUMAInfo(
                cpu_pins={}, emulator_pins=self.get_low_emulator_cpus())
        if (self.floats_on_all_cpus(instance.flavor) and
                instance.numa_topology is None):
            data.dst_cpu_shared_set_info = self.get_floating_cpus()
        return data

    def _check_destination(self, instance, priority, src_compute_info):
        self.probe_partitions()
        if self.partitions.problem:
            raise exception.MigrationPreCheckError(
                reason=self.partitions.problem)
        if priority == capacity.LOW and (
                host_report.STATS_KEY not in (
                    src_compute_info.get('stats') or {})):
            raise exception.MigrationPreCheckError(reason=(
                'host %s does not run the compute driver of nova-prio now, '
                'and would send the low-priority instance without its '
                'partition; migrate it cold' % instance.host))

    def check_can_live_migrate_source(self, context, instance,
                                      dest_check_data, *args, **kwargs):
        """Keep guests with a priority where it is known.

        :raises nova.exception.MigrationPreCheckError: where the guest has a
            priority, and the destination does not run our driver
        """
        if (flavor_specs.get_priority(instance.flavor.extra_specs) is not None and
                'dst_numa_info' not in dest_check_data):
            raise exception.MigrationPreCheckError(reason=(
                'the destination does not run the compute driver of '
                'nova-prio, which the priority of the instance needs'))
        return super().check_can_live_migrate_source(
            context, instance, dest_check_data, *args, **kwargs)

    def post_claim_migrate_data(self, context, instance, migrate_data, claim):
        """Tell the source where the guest was fitted, if it has a topology.

        Without one, stock Nova would not have claimed. If the migration fails,
        a source that knows of the claim waits until this host drops it, and
        gives the instance up if this host does not answer. Therefore the
        source is not told: see nova_prio.compute.incoming_migrations.
        """
        if claim.claimed_numa_topology is None:
            del migrate_data.src_supports_numa_live_migration
            return migrate_data
        return super().post_claim_migrate_data(
            context, instance, migrate_data, claim)

    def rollback_live_migration_at_destination(
            self, context, instance, *args, **kwargs):
        """Clean up here, and leave the instance as it is at home.

        Nova lends it what it was to have here, and saves it where its disks
        are not shared, maybe after the source has: its CPUs at home would be
        given away, and others counted as its own.

        libvirt starts the guest here by itself, and may have failed to.
        """
        if flavor_specs.get_priority(instance.flavor.extra_specs) is not None:
            self.partitions.record_failed_start()
        instance.obj_reset_changes(recursive=True)
        super().rollback_live_migration_at_destination(
            context, instance, *args, **kwargs)

    def _live_migration_operation(self, context, instance, dest,
                                  block_migration, migrate_data, guest,
                                  *args, **kwargs):
        priority = flavor_specs.get_priority(instance.flavor.extra_specs)
        if priority is not None:
            threads = None
            if priority == capacity.LOW and instance.numa_topology is None:
                threads = migrate_data.dst_numa_info.emulator_pins
            guest = _RewrittenGuest(guest, priority, threads)
        return super()._live_migration_operation(
            context, instance, dest, block_migration, migrate_data, guest,
            *args, **kwargs)


class _RewrittenGuest:
    """A guest that arrives with the XML of its priority."""

    def __init__(self, guest, priority, threads):
        self._guest = guest
        self._priority = priority
        self._threads = threads

    def __getattr__(self, name):
        return getattr(self._guest, name)

    def migrate(self, *args, destination_xml, **kwargs):
        return self._guest.migrate(
            *args, destination_xml=guest_xml.apply_priority(
                destination_xml, self._priority, self._threads), **kwargs)
