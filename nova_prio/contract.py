# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What this package relies on in Nova, and the refusal of a Nova without it.

What is overridden or called is listed in :data:`SEAMS`, with the parameters
that are relied on. :data:`OPTIONS` lists the options of Nova that this package
reads. Each service checks its part of both lists when it starts.
"""

import dataclasses
import importlib.metadata
import inspect

from oslo_log import log as logging
from oslo_utils import importutils

LOG = logging.getLogger(__name__)

#: Releases of Nova that this package is tested with.
TESTED_RELEASES = (31, 33, 34)

API = 'nova-api'
SCHEDULER = 'nova-scheduler'
COMPUTE = 'nova-compute'
#: The commands that read Nova's databases.
COMMANDS = 'nova-prio'


@dataclasses.dataclass(frozen=True)
class Seam:
    """One name of Nova that is relied on.

    ``target`` is the path below ``module``; ``parameters`` are the names that
    a callable has to accept, in their order, and is None for plain data.
    """

    service: str
    module: str
    target: str
    parameters: tuple | None = ()

    @property
    def name(self):
        """The full name of it."""
        return '%s.%s' % (self.module, self.target)

    def mismatch(self):
        """Return what is wrong with it in the running Nova, or None."""
        name = self.name
        found = importutils.try_import(self.module)
        for attribute in self.target.split('.'):
            # None has attributes of its own, such as __init__.
            if found is not None:
                found = getattr(found, attribute, None)
        if found is None:
            return '%s does not exist' % name
        if self.parameters is None:
            return None
        if not callable(found):
            return '%s is not callable' % name
        accepted = iter(inspect.signature(found).parameters)
        for parameter in self.parameters:
            if parameter not in accepted:
                return '%s has no parameter %r in its place' % (
                    name, parameter)
        return None


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of Nova that this package reads.

    If ``may_be_missing`` is true, a release without the option is supported.
    """

    service: str
    group: str
    option: str
    may_be_missing: bool = False

    @property
    def name(self):
        """Return the option with its group, as messages name it."""
        return '[%s] %s' % (self.group, self.option)

    def mismatch(self):
        """Return the text of a mismatch in the running Nova, or None."""
        if self.may_be_missing or is_registered(
                importutils.import_module('nova.conf').CONF,
                self.group, self.option):
            return None
        return '%s does not exist' % self.name


def is_registered(conf, group, option):
    """Return whether a release of Nova has an option.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param group: name of the group, or 'DEFAULT'
    """
    if group == 'DEFAULT':
        return option in conf
    return group in conf and option in conf[group]


_TRACKER = 'nova.compute.resource_tracker'
_CLAIMS = 'nova.compute.claims'
_DRIVER = 'nova.virt.libvirt.driver'
_REPORT = 'nova.scheduler.client.report'

SEAMS = (
    Seam(API, 'nova.api.openstack.compute.servers', 'ServersController.create',
         ('self', 'req', 'body')),
    Seam(API, 'nova.compute.api', 'API.create',
         ('self', 'context', 'flavor', 'scheduler_hints')),
    Seam(API, 'nova.compute.api', 'API.resize',
         ('self', 'context', 'instance', 'flavor_id')),
    Seam(API, 'nova.compute.api', 'API.live_migrate',
         ('self', 'context', 'instance', 'host_name', 'force')),
    Seam(API, 'nova.compute.api', 'API.evacuate',
         ('self', 'context', 'instance', 'host', 'force')),
    Seam(API, 'nova.compute.api', 'API._validate_and_build_base_options',
         ('self', 'context', 'flavor', 'boot_meta')),
    Seam(API, 'nova.compute.api', 'API._validate_flavor_image_numa_pci',
         ('image', 'flavor')),
    Seam(API, 'nova.compute.api', 'flavors.get_flavor_by_flavor_id',
         ('flavorid',)),
    Seam(API, 'nova.exception', 'InvalidRequest'),
    Seam(API, 'nova.exception', 'ValidationError'),
    Seam(API, 'nova.virt.hardware', 'numa_get_constraints',
         ('flavor', 'image_meta')),
    Seam(API, 'nova.virt.hardware', 'format_cpu_spec', ('cpuset',)),
    Seam(API, 'nova.objects.instance_numa', 'InstanceNUMACell.total_cpus',
         None),
    Seam(API, 'nova.objects.image_meta', 'ImageMeta.from_dict',
         ('image_meta',)),
    Seam(API, 'nova.objects.image_meta', 'ImageMetaProps.from_dict',
         ('image_props',)),
    Seam(API, 'nova.api.validation.extra_specs.validators', 'validate',
         ('name', 'value')),
    Seam(API, 'nova.objects.instance', 'Instance.image_meta', None),
    Seam(API, 'nova.policies', 'list_rules'),
    Seam(API, 'nova.policy', 'init'),
    Seam(API, 'nova.context', 'RequestContext.can', ('self', 'action')),
    Seam(API, 'nova.api.validation.extra_specs.base', 'ExtraSpecValidator',
         ('name', 'description', 'value')),
    Seam(SCHEDULER, 'nova.scheduler.request_filter', 'ALL_REQUEST_FILTERS',
         None),
    Seam(SCHEDULER, 'nova.scheduler.request_filter', 'process_reqspec',
         ('ctxt', 'request_spec')),
    Seam(SCHEDULER, 'nova.exception', 'RequestFilterFailed'),
    Seam(SCHEDULER, 'nova.objects.instance_mapping',
         'InstanceMapping.get_by_instance_uuid', ('context', 'instance_uuid')),
    Seam(SCHEDULER, 'nova.objects.request_spec',
         'RequestSpec.get_scheduler_hint', ('self', 'hint_name')),
    Seam(SCHEDULER, 'nova.objects.request_spec', 'RequestSpec.root_required',
         None),
    Seam(SCHEDULER, 'nova.objects.request_spec', 'Destination.cell', None),
    Seam(SCHEDULER, 'nova.objects.request_spec',
         'Destination.require_aggregates', ('self', 'aggregates')),
    Seam(SCHEDULER, 'nova.objects.request_spec',
         'Destination.append_forbidden_aggregates',
         ('self', 'forbidden_aggregates')),
    Seam(SCHEDULER, 'nova.scheduler.filters', 'BaseHostFilter.filter_all',
         ('self', 'filter_obj_list', 'spec_obj')),
    Seam(SCHEDULER, 'nova.scheduler.filters', 'BaseHostFilter.host_passes',
         ('self', 'host_state', 'filter_properties')),
    Seam(SCHEDULER, 'nova.scheduler.filters.numa_topology_filter',
         'NUMATopologyFilter.host_passes', ('self', 'host_state', 'spec_obj')),
    Seam(SCHEDULER, 'nova.virt.hardware', 'numa_fit_instance_to_host',
         ('host_topology', 'instance_topology', 'provider_mapping', 'limits',
          'pci_requests', 'pci_stats')),
    Seam(SCHEDULER, 'nova.scheduler.utils', 'request_is_rebuild',
         ('spec_obj',)),
    Seam(API, 'nova.scheduler.utils', 'ResourceRequest.from_request_spec',
         ('request_spec',)),
    Seam(API, 'nova.scheduler.utils', 'ResourceRequest.merged_resources',
         ('self',)),
    Seam(SCHEDULER, 'nova.scheduler.host_manager', 'HostState.update',
         ('self', 'compute', 'service', 'aggregates')),
    Seam(SCHEDULER, 'nova.scheduler.weights.cpu', 'CPUWeigher.weigh_objects',
         ('self', 'weighed_obj_list', 'weight_properties')),
    Seam(SCHEDULER, 'nova.scheduler.weights.cpu', 'CPUWeigher._weigh_object',
         ('self', 'host_state', 'weight_properties')),
    Seam(SCHEDULER, 'nova.scheduler.weights.cpu',
         'CPUWeigher.weight_multiplier', ('self', 'host_state')),
    Seam(SCHEDULER, 'nova.scheduler.weights', 'BaseHostWeigher.weigh_objects',
         ('self', 'weighed_obj_list', 'weight_properties')),
    Seam(SCHEDULER, 'nova.scheduler.weights', 'BaseHostWeigher._weigh_object',
         ('self', 'obj', 'weight_properties')),
    Seam(SCHEDULER, 'nova.scheduler.weights',
         'BaseHostWeigher.weight_multiplier', ('self', 'host_state')),
    Seam(SCHEDULER, 'nova.context', 'scatter_gather_skip_cell0',
         ('context', 'fn')),
    Seam(SCHEDULER, 'nova.context', 'is_cell_failure_sentinel', ('record',)),
    Seam(SCHEDULER, 'nova.objects.instance', 'InstanceList.get_by_filters',
         ('context', 'filters', 'expected_attrs')),
    Seam(SCHEDULER, 'nova.db.api.api', 'context_manager.reader', ('fn',)),
    Seam(SCHEDULER, 'nova.db.api.models', 'Aggregate.id', None),
    Seam(SCHEDULER, 'nova.db.api.models', 'Aggregate.uuid', None),
    Seam(SCHEDULER, 'nova.db.api.models', 'AggregateHost.host', None),
    Seam(SCHEDULER, 'nova.db.api.models', 'AggregateHost.aggregate_id', None),
    Seam(SCHEDULER, 'nova.db.api.models', 'AggregateMetadata.aggregate_id',
         None),
    Seam(SCHEDULER, 'nova.db.api.models', 'AggregateMetadata.key', None),
    Seam(SCHEDULER, 'nova.db.api.models', 'AggregateMetadata.value', None),
    Seam(SCHEDULER, 'nova.scheduler.utils', 'get_weight_multiplier',
         ('host_state', 'multiplier_name', 'multiplier_config')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.__init__',
         ('self', 'host', 'driver')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.update_available_resource',
         ('self', 'context', 'nodename', 'startup')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_available_resource',
         ('self', 'context', 'resources', 'startup')),
    Seam(COMPUTE, 'nova.exception', 'CPUPinningUnknown'),
    Seam(COMPUTE, 'nova.exception', 'PlacementPciException'),
    Seam(COMPUTE, 'nova.exception', 'InventoryInUse'),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._get_usage_dict',
         ('self', 'object_or_dict', 'instance', 'updates')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_usage',
         ('self', 'usage', 'nodename', 'sign')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_usage_from_instances',
         ('self', 'context', 'instances', 'nodename')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_usage_from_migrations',
         ('self', 'context', 'migrations', 'nodename')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_usage_from_migration',
         ('self', 'context', 'instance', 'migration', 'nodename')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_usage_from_instance',
         ('self', 'context', 'instance', 'nodename')),
    Seam(COMPUTE, _TRACKER,
         'ResourceTracker._remove_deleted_instances_allocations',
         ('self', 'context', 'cn', 'migrations', 'instance_by_uuid')),
    Seam(COMPUTE, _REPORT, 'SchedulerReportClient.get',
         ('self', 'url', 'version')),
    Seam(COMPUTE, _REPORT, 'SchedulerReportClient.put',
         ('self', 'url', 'data', 'version', 'global_request_id')),
    Seam(COMPUTE, _REPORT, 'SchedulerReportClient.get_allocs_for_consumer',
         ('self', 'context', 'consumer')),
    Seam(COMPUTE, _REPORT, 'SchedulerReportClient.update_from_provider_tree',
         ('self', 'context', 'new_tree')),
    Seam(COMPUTE, _REPORT,
         'SchedulerReportClient.get_provider_tree_and_ensure_root',
         ('self', 'context', 'rp_uuid')),
    Seam(COMPUTE, _REPORT,
         'SchedulerReportClient.get_allocations_for_resource_provider',
         ('self', 'context', 'rp_uuid')),
    Seam(COMPUTE, 'nova.compute.utils', 'is_volume_backed_instance',
         ('context', 'instance', 'bdms')),
    Seam(COMPUTE, 'nova.objects.block_device',
         'BlockDeviceMappingList.bdms_by_instance_uuid',
         ('context', 'instance_uuids')),
    Seam(COMPUTE, 'nova.objects.instance', 'Instance.get_by_uuid',
         ('context', 'uuid', 'expected_attrs')),
    Seam(COMPUTE, 'nova.objects.instance', 'InstanceList.get_by_filters',
         ('context', 'filters', 'expected_attrs')),
    Seam(COMPUTE, 'nova.objects.instance', 'InstanceList.get_uuids_by_host',
         ('context', 'host')),
    Seam(COMPUTE, 'nova.objects.instance', 'Instance.revert_migration_context',
         ('self',)),
    Seam(COMPUTE, 'nova.objects.instance', 'Instance.drop_migration_context',
         ('self',)),
    Seam(COMPUTE, 'nova.objects.migration_context',
         'MigrationContext.new_numa_topology', None),
    Seam(COMPUTE, 'nova.objects.instance_pci_requests',
         'InstancePCIRequests.requests', None),
    Seam(COMPUTE, 'nova.objects.migration', 'Migration.is_live_migration',
         None),
    Seam(COMPUTE, 'nova.objects.migration', 'Migration.get_by_id',
         ('context', 'migration_id')),
    Seam(COMPUTE, 'nova.objects.migration', 'Migration.instance', None),
    Seam(COMPUTE, 'nova.objects.migration',
         'MigrationList.get_by_filters', ('context', 'filters')),
    Seam(COMPUTE, 'nova.scheduler.utils', 'ResourceRequest.from_request_spec',
         ('request_spec',)),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.update_usage',
         ('self', 'context', 'instance', 'nodename')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.resize_claim',
         ('self', 'context', 'instance', 'flavor')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.rebuild_claim',
         ('self', 'context', 'instance')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.live_migration_claim',
         ('self', 'context', 'instance')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.instance_claim',
         ('self', 'context', 'instance')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.abort_instance_claim',
         ('self', 'context', 'instance', 'nodename')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker.drop_move_claim',
         ('self', 'context', 'instance', 'nodename')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._get_migration_context_resource',
         ('self', 'resource', 'instance', 'prefix')),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._move_claim',
         ('self', 'context', 'instance', 'new_flavor', 'nodename',
          'migration')),
    Seam(COMPUTE, 'nova.pci.manager', 'PciDevTracker.free_instance_claims',
         ('self', 'context', 'instance')),
    Seam(COMPUTE, _TRACKER, '_instance_in_resize_state', ('instance',)),
    Seam(COMPUTE, _TRACKER, '_instance_is_live_migrating', ('instance',)),
    Seam(COMPUTE, _TRACKER, 'COMPUTE_RESOURCE_SEMAPHORE', None),
    Seam(COMPUTE, 'nova.utils', 'synchronized', ()),
    Seam(COMPUTE, 'nova.compute.task_states', 'RESIZE_REVERTING', None),
    Seam(COMPUTE, 'nova.compute.task_states', 'rebuild_states', None),
    Seam(COMPUTE, _TRACKER, 'ResourceTracker._update_to_placement',
         ('self', 'context', 'compute_node', 'startup')),
    Seam(COMPUTE, _TRACKER, 'claims.NopClaim'),
    Seam(COMPUTE, _CLAIMS, 'Claim.__init__',
         ('self', 'context', 'instance', 'nodename', 'tracker',
          'compute_node', 'pci_requests', 'migration', 'limits')),
    Seam(COMPUTE, _CLAIMS, 'Claim._test_numa_topology',
         ('self', 'compute_node', 'limit')),
    Seam(COMPUTE, _CLAIMS, 'MoveClaim.__init__',
         ('self', 'context', 'instance', 'nodename', 'flavor', 'image_meta',
          'tracker', 'compute_node', 'pci_requests', 'migration', 'limits')),
    Seam(COMPUTE, _CLAIMS, 'MoveClaim._test_numa_topology',
         ('self', 'resources', 'limit')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.__init__', ('self', 'virtapi')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.init_host', ('self', 'host')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.cleanup_host', ('self', 'host')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.update_provider_tree',
         ('self', 'provider_tree', 'nodename', 'allocations')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._get_allocation_ratios',
         ('inventory',)),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._get_vcpu_available', ('self',)),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._get_pcpu_available', ('self',)),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._get_guest_numa_config',
         ('self', 'instance_numa_topology', 'flavor', 'image_meta')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._get_guest_xml',
         ('self', 'context', 'instance')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._create_guest',
         ('self', 'context', 'xml', 'instance')),
    Seam(COMPUTE, _DRIVER,
         'LibvirtDriver.check_can_live_migrate_destination',
         ('self', 'context', 'instance', 'src_compute_info')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.check_can_live_migrate_source',
         ('self', 'context', 'instance', 'dest_check_data')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.post_claim_migrate_data',
         ('self', 'context', 'instance', 'migrate_data', 'claim')),
    Seam(COMPUTE, _DRIVER,
         'LibvirtDriver.rollback_live_migration_at_destination',
         ('self', 'context', 'instance')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._live_migration_operation',
         ('self', 'context', 'instance', 'dest', 'block_migration',
          'migrate_data', 'guest')),
    Seam(COMPUTE, 'nova.virt.libvirt.guest', 'Guest.migrate',
         ('self', 'destination_xml')),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver._get_host_numa_topology',
         ('self',)),
    Seam(COMPUTE, _DRIVER, 'LibvirtDriver.get_available_resource',
         ('self', 'nodename')),
    Seam(COMPUTE, 'nova.virt.libvirt.host', 'Host.get_connection'),
    Seam(COMPUTE, 'nova.virt.libvirt.host', 'Host.list_instance_domains',
         ('self', 'only_running')),
    Seam(COMPUTE, 'nova.virt.libvirt.utils', 'get_instance_path',
         ('instance',)),
    Seam(COMPUTE, 'nova.virt.libvirt.utils', 'load_file', ('path',)),
    Seam(COMPUTE, 'nova.objects.migrate_data',
         'LibvirtLiveMigrateData.dst_supports_numa_live_migration', None),
    Seam(COMPUTE, 'nova.objects.migrate_data',
         'LibvirtLiveMigrateData.src_supports_numa_live_migration', None),
    Seam(COMPUTE, 'nova.objects.migrate_data',
         'LibvirtLiveMigrateData.dst_cpu_shared_set_info', None),
    Seam(COMPUTE, 'nova.objects.migrate_data',
         'LibvirtLiveMigrateData.dst_numa_info', None),
    Seam(COMPUTE, 'nova.objects.migrate_data',
         'LibvirtLiveMigrateNUMAInfo.cpu_pins', None),
    Seam(COMPUTE, 'nova.objects.migrate_data',
         'LibvirtLiveMigrateNUMAInfo.emulator_pins', None),
    Seam(COMPUTE, _DRIVER, 'GuestNumaConfig', ('cpuset', 'cputune')),
    Seam(COMPUTE, 'nova.virt.hardware', 'get_cpu_dedicated_set'),
    Seam(COMPUTE, 'nova.virt.hardware', 'get_cpu_shared_set'),
    Seam(COMPUTE, 'nova.virt.hardware', 'format_cpu_spec', ('cpuset',)),
    Seam(COMPUTE, 'nova.virt.hardware', 'parse_cpu_spec', ('spec',)),
    Seam(COMPUTE, 'nova.objects.numa', 'NUMATopology.obj_from_db_obj'),
    Seam(COMMANDS, 'nova.config', 'parse_args',
         ('argv', 'configure_db', 'init_rpc')),
    Seam(COMMANDS, 'nova.servicegroup', 'API.service_is_up',
         ('self', 'member')),
    Seam(COMMANDS, 'nova.context', 'target_cell',
         ('context', 'cell_mapping')),
    Seam(COMMANDS, 'nova.context', 'scatter_gather_all_cells',
         ('context', 'fn')),
    Seam(COMMANDS, 'nova.context', 'scatter_gather_skip_cell0',
         ('context', 'fn')),
    Seam(COMMANDS, 'nova.context', 'is_cell_failure_sentinel', ('record',)),
    Seam(COMMANDS, 'nova.objects.aggregate', 'AggregateList.get_all',
         ('context',)),
    Seam(COMMANDS, 'nova.objects.cell_mapping', 'CellMappingList.get_all',
         ('context',)),
    Seam(COMMANDS, 'nova.objects.cell_mapping', 'CellMapping.is_cell0',
         ('self',)),
    Seam(COMMANDS, 'nova.objects.host_mapping', 'HostMapping.get_by_host',
         ('context', 'host')),
    Seam(COMMANDS, 'nova.objects.host_mapping',
         'HostMappingList.get_by_cell_id', ('context', 'cell_id')),
    Seam(COMMANDS, 'nova.objects.compute_node', 'ComputeNode.get_by_id',
         ('context', 'compute_id')),
    Seam(COMMANDS, 'nova.objects.compute_node', 'ComputeNodeList.get_all',
         ('context',)),
    Seam(COMMANDS, 'nova.objects.compute_node',
         'ComputeNodeList.get_all_by_host', ('context', 'host')),
    Seam(COMMANDS, 'nova.objects.compute_node',
         'ComputeNodeList.get_by_pagination', ('context', 'limit', 'marker')),
    Seam(COMMANDS, 'nova.objects.aggregate', 'AggregateList.get_by_host',
         ('context', 'host')),
    Seam(COMMANDS, 'nova.objects.service', 'Service.get_by_compute_host',
         ('context', 'host')),
    Seam(COMMANDS, 'nova.objects.build_request',
         'BuildRequest.get_by_instance_uuid', ('context', 'instance_uuid')),
    Seam(COMMANDS, 'nova.objects.build_request', 'BuildRequestList.get_all',
         ('context',)),
    Seam(COMMANDS, 'nova.objects.flavor', 'FlavorList.get_all',
         ('context', 'inactive')),
    Seam(COMMANDS, 'nova.objects.instance', 'InstanceList.get_by_filters',
         ('context', 'filters', 'sort_dir', 'limit', 'marker',
          'expected_attrs')),
    Seam(COMMANDS, 'nova.objects.instance',
         'InstanceList.get_by_host_and_node',
         ('context', 'host', 'node', 'expected_attrs')),
    Seam(COMMANDS, 'nova.objects.instance_mapping',
         'InstanceMapping.get_by_instance_uuid', ('context', 'instance_uuid')),
    Seam(COMMANDS, 'nova.objects.migration', 'Migration.get_by_uuid',
         ('context', 'migration_uuid')),
    Seam(COMMANDS, 'nova.objects.migration',
         'MigrationList.get_in_progress_by_host_and_node',
         ('context', 'host', 'node')),
    Seam(COMMANDS, 'nova.virt.hardware', 'parse_cpu_spec', ('spec',)),
    Seam(COMMANDS, _REPORT, 'SchedulerReportClient.get',
         ('self', 'url', 'version')),
    Seam(COMMANDS, _REPORT, 'SchedulerReportClient.get_providers_in_tree',
         ('self', 'context', 'uuid')),
)

_FILTERS = 'filter_scheduler'

OPTIONS = (
    Option(API, 'quota', 'driver'),
    Option(API, 'quota', 'unified_limits_resource_list'),
    Option(API, 'quota', 'unified_limits_resource_strategy'),
    Option(SCHEDULER, _FILTERS, 'available_filters'),
    Option(SCHEDULER, _FILTERS, 'enabled_filters'),
    Option(SCHEDULER, _FILTERS, 'weight_classes'),
    Option(SCHEDULER, _FILTERS, 'cpu_weight_multiplier'),
    Option(SCHEDULER, _FILTERS, 'soft_affinity_weight_multiplier'),
    Option(SCHEDULER, _FILTERS, 'soft_anti_affinity_weight_multiplier'),
    # Deprecated: a release without it has no fallback to VCPU either.
    Option(SCHEDULER, 'workarounds', 'disable_fallback_pcpu_query',
           may_be_missing=True),
    Option(COMPUTE, 'DEFAULT', 'cpu_allocation_ratio'),
    Option(COMPUTE, 'DEFAULT', 'ram_allocation_ratio'),
    Option(COMPUTE, 'DEFAULT', 'initial_ram_allocation_ratio'),
    Option(COMPUTE, 'compute', 'cpu_dedicated_set'),
    Option(COMPUTE, 'compute', 'cpu_shared_set'),
    Option(COMPUTE, 'libvirt', 'cpu_power_management'),
    Option(COMPUTE, 'libvirt', 'virt_type'),
    Option(COMMANDS, 'DEFAULT', 'compute_driver'),
    Option(COMMANDS, 'DEFAULT', 'host'),
    Option(COMMANDS, 'api_database', 'connection'),
    Option(COMMANDS, 'api_database', 'max_retries'),
    Option(COMMANDS, 'database', 'max_retries'),
    Option(COMMANDS, 'libvirt', 'connection_uri'),
)


def refuse(sentence):
    """Stop the service that is starting, with one line that says why.

    :param sentence: what is wrong, with which value, and the remedy
    :raises SystemExit: always
    """
    LOG.critical('nova_prio: %s', sentence)
    raise SystemExit(1)


def mismatches(service):
    """Return what of the running Nova does not match, one text each.

    :param service: name of the service whose interfaces are checked
    """
    return [found for found in (each.mismatch() for each in (*SEAMS, *OPTIONS)
                                if each.service == service) if found]


def release():
    """Return the version of the running Nova, such as "34.0.0"."""
    from nova import version
    return version.version_string()


def own_release():
    """Return the version of this package, such as "1.0.0".

    It is read from the metadata that holds the entry points as well.
    """
    return importlib.metadata.version('nova-prio')


def is_tested(release):
    """Return whether this package is tested with a release of Nova."""
    return int(release.split('.')[0]) in TESTED_RELEASES


def check(service):
    """Refuse to go on where the running Nova does not match.

    :param service: name of the service whose seams are checked
    :raises SystemExit: where one of its seams is not as listed
    """
    found = mismatches(service)
    if found:
        refuse('Nova %s does not match this package in %s: %s. Install a '
               'release of nova-prio that supports it, or take nova-prio out '
               'of the configuration of %s.'
               % (release(), service, '; '.join(found), service))
    if not is_tested(release()):
        LOG.warning('nova-prio is not tested with Nova %(release)s, only with '
                    '%(tested)s; its interfaces match in %(service)s.',
                    {'release': release(), 'service': service,
                     'tested': ', '.join(map(str, TESTED_RELEASES))})
