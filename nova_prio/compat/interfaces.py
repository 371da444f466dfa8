# SPDX-License-Identifier: Apache-2.0

"""The names of Nova that this package relies on.

:mod:`nova_prio.compat.contract` checks these tables. Add a name here if new
code uses it. These need no entry:

* a method that a class in :data:`EXTENDED` extends with ``super()``: its
  parameters are compared with those of our method;
* a field of a versioned object, which no release of Nova removes without a
  new major version of the object.
"""

API = 'nova-api'
SCHEDULER = 'nova-scheduler'
COMPUTE = 'nova-compute'
#: The commands that read Nova's databases.
COMMANDS = 'nova-prio'

#: Service -> the classes of this package that extend a class of Nova.
EXTENDED = {
    API: ['nova_prio.api.compute_api.PriorityAPI'],
    SCHEDULER: [
        'nova_prio.scheduler.filters.priority_filter.PriorityFilter',
        'nova_prio.scheduler.weights.group_weighers.SoftAffinityWeigher',
        'nova_prio.scheduler.weights.group_weighers.SoftAntiAffinityWeigher',
        'nova_prio.scheduler.weights.low_supply_weigher.LowSupplyWeigher',
        'nova_prio.scheduler.weights.priority_weighter.PriorityWeighter',
    ],
    COMPUTE: [
        'nova_prio.compute.claims.PriorityClaim',
        'nova_prio.compute.claims.PriorityMoveClaim',
        'nova_prio.virt.libvirt.driver.PriorityLibvirtDriver',
        'nova_prio.compute.resource_tracker.PriorityResourceTracker',
    ],
}

#: Services -> the options of Nova that each must have, as GROUP.OPTION, or
#: DEFAULT.GROUP if a library registers the options of the group later.
OPTIONS = {
    (API,): """
        DEFAULT.oslo_limit
        quota.driver
        quota.unified_limits_resource_list
        quota.unified_limits_resource_strategy
    """,
    (SCHEDULER,): """
        filter_scheduler.cpu_weight_multiplier
        filter_scheduler.soft_affinity_weight_multiplier
        filter_scheduler.soft_anti_affinity_weight_multiplier
    """,
    (SCHEDULER, COMMANDS): """
        filter_scheduler.enabled_filters
        filter_scheduler.weight_classes
    """,
    (COMPUTE,): """
        DEFAULT.cpu_allocation_ratio
        DEFAULT.reserved_host_cpus
        DEFAULT.reserved_host_memory_mb
        DEFAULT.vcpu_pin_set
        compute.cpu_dedicated_set
        compute.cpu_shared_set
        libvirt.cpu_power_management
        libvirt.virt_type
    """,
    (COMPUTE, COMMANDS): """
        DEFAULT.host
        DEFAULT.long_rpc_timeout
        DEFAULT.vif_plugging_timeout
        libvirt.file_backed_memory
    """,
    (COMMANDS,): """
        DEFAULT.compute_driver
        DEFAULT.default_availability_zone
        DEFAULT.default_schedule_zone
        DEFAULT.initial_ram_allocation_ratio
        DEFAULT.ram_allocation_ratio
        api_database.connection
        filter_scheduler.available_filters
        libvirt.connection_uri
        scheduler.max_placement_results
        workarounds.skip_hypervisor_version_check_on_lm
    """,
}

#: Services -> owners, each a module or module:class, and the names that each
#: must have. The parameters of a callable, beside ``self``, must be there in
#: this order.
NAMES = {
    (API,): """
        nova.api.openstack.wsgi_app _get_config_files
        nova.api.validation.extra_specs.base ExtraSpecValidator(name,
            description, value)
        nova.api.validation.extra_specs.validators validate(name, value)
        nova.exception InvalidRequest PolicyNotAuthorized ValidationError
        nova.objects.image_meta:ImageMeta from_dict(image_meta)
        nova.objects.image_meta:ImageMetaProps from_dict(image_props)
        nova.policy default_target(context) register_rules(enforcer)
        nova.scheduler.utils:ResourceRequest merged_resources
    """,
    (API, COMPUTE): """
        nova.objects.instance:Instance image_meta
        nova.objects.instance_numa:InstanceNUMACell total_cpus
        nova.scheduler.utils:ResourceRequest from_request_spec(request_spec)
        nova.virt.hardware format_cpu_spec(cpuset)
            numa_get_constraints(flavor, image_meta)
    """,
    (SCHEDULER,): """
        nova.db.api.api:context_manager reader(fn)
        nova.db.api.models:Aggregate id uuid
        nova.db.api.models:AggregateHost aggregate_id host
        nova.db.api.models:AggregateMetadata aggregate_id key value
        nova.objects.request_spec:Destination
            append_forbidden_aggregates(forbidden_aggregates)
            require_aggregates(aggregates)
        nova.objects.request_spec:RequestSpec get_scheduler_hint(hint_name)
            root_required
        nova.scheduler.filters.numa_topology_filter:NUMATopologyFilter
            host_passes(host_state, spec_obj)
        nova.scheduler.filters:BaseHostFilter filter_all(filter_obj_list,
            spec_obj) host_passes(host_state, filter_properties)
        nova.scheduler.request_filter ALL_REQUEST_FILTERS
        nova.scheduler.utils get_weight_multiplier(host_state, multiplier_name,
            multiplier_config) request_is_rebuild(spec_obj)
        nova.scheduler.weights:BaseHostWeigher _weigh_object(obj,
            weight_properties) weigh_objects(weighed_obj_list,
            weight_properties) weight_multiplier(host_state)
        nova.virt.hardware numa_fit_instance_to_host(host_topology,
            instance_topology, provider_mapping, limits, pci_requests,
            pci_stats)
    """,
    (SCHEDULER, COMMANDS): """
        nova.context is_cell_failure_sentinel(record)
            scatter_gather_skip_cell0(context, fn)
        nova.exception InstanceMappingNotFound RequestFilterFailed
        nova.objects.instance_mapping:InstanceMapping
            get_by_instance_uuid(context, instance_uuid)
        nova.scheduler.host_manager:HostState update(compute, service,
            aggregates, inst_dict)
        nova.scheduler.request_filter process_reqspec(ctxt, request_spec)
    """,
    (SCHEDULER, COMPUTE, COMMANDS): """
        nova.objects.instance:InstanceList get_by_filters(context, filters,
            sort_dir, limit, marker, expected_attrs)
        nova.objects.numa:NUMAPagesTopology free
    """,
    (COMPUTE,): """
        nova.compute.claims Claim MoveClaim NopClaim
        nova.compute.manager:ComputeManager _set_instance_info(instance,
            flavor)
        nova.compute.resource_tracker:ResourceTracker _update(context,
            compute_node)
        nova.compute.task_states MIGRATING RESCUING RESIZE_REVERTING SPAWNING
            rebuild_states
        nova.compute.utils is_volume_backed_instance(context, instance, bdms)
        nova.exception CPUPinningInvalid CPUPinningUnknown CPUUnpinningInvalid
            CPUUnpinningUnknown GroupAffinityViolation InstanceFaultRollback(
            inner_exception) MigrationError
        nova.objects.instance:Instance get_by_uuid(context, uuid,
            expected_attrs) revert_migration_context
        nova.pci.manager:PciDevTracker free_instance_claims(context, instance)
        nova.scheduler.client.report:SchedulerReportClient
            get_allocations_for_resource_provider(context, rp_uuid)
            get_allocs_for_consumer(context, consumer) put(url, data, version,
            global_request_id)
        nova.virt.hardware get_cpu_dedicated_set get_cpu_shared_set
            numa_usage_from_instance_numa(host_topology, instance_topology)
        nova.virt.libvirt.driver GuestNumaConfig(cpuset, cputune)
        nova.virt.libvirt.driver:LibvirtDriver
            _get_allocation_ratios(inventory) _get_host_numa_topology
            _get_pcpu_available _get_vcpu_available
        nova.virt.libvirt.guest:Guest migrate(destination_xml)
        nova.virt.libvirt.host:Host get_connection get_memory_mb_total
            get_online_cpus list_instance_domains(only_running)
        nova.virt.libvirt.utils get_instance_path(instance) load_file(path)
    """,
    (COMPUTE, COMMANDS): """
        nova.compute.vm_states allow_resource_removal(vm_state, task_state)
        nova.objects.block_device:BlockDeviceMappingList
            bdms_by_instance_uuid(context, instance_uuids)
        nova.objects.compute_node:ComputeNodeList get_all_by_host(context,
            host)
        nova.objects.instance:Instance drop_migration_context
        nova.objects.migration:Migration get_by_id(context, migration_id)
            instance is_live_migration
        nova.objects.migration:MigrationList get_by_filters(context, filters)
        nova.objects.numa:NUMATopology obj_from_db_obj
        nova.scheduler.client.report:SchedulerReportClient get(url, version)
        nova.virt.hardware parse_cpu_spec(spec)
    """,
    (COMMANDS,): """
        nova.conf.opts list_opts
        nova.compute.utils is_volume_backed_instance(context, instance)
        nova.config parse_args(argv, configure_db, init_rpc)
        nova.context scatter_gather_all_cells(context, fn) target_cell(context,
            cell_mapping)
        nova.db.main.api instance_get_all_uuids_by_hosts(context, hosts)
        nova.image.glance:API get(context, id_or_uri)
        nova.objects.aggregate:AggregateList get_all(context)
            get_by_host(context, host)
        nova.objects.build_request:BuildRequest get_by_instance_uuid(context,
            instance_uuid)
        nova.objects.build_request:BuildRequestList get_all(context)
        nova.objects.cell_mapping:CellMapping is_cell0
        nova.objects.cell_mapping:CellMappingList get_all(context)
        nova.objects.compute_node:ComputeNode get_by_id(context, compute_id)
        nova.objects.compute_node:ComputeNodeList get_all(context)
            get_by_pagination(context, limit, marker)
        nova.objects.flavor:FlavorList get_all(context, inactive)
        nova.objects.host_mapping:HostMapping get_by_host(context, host)
        nova.objects.host_mapping:HostMappingList get_all(context)
        nova.objects.instance:InstanceList get_by_host_and_node(context, host,
            node, expected_attrs)
        nova.objects.instance_group:InstanceGroupList get_all(context)
        nova.objects.instance_pci_requests:InstancePCIRequest FLAVOR_ALIAS
            is_live_migratable
        nova.objects.migration:Migration get_by_uuid(context, migration_uuid)
        nova.objects.migration:MigrationList
            get_in_progress_by_host_and_node(context, host, node)
        nova.objects.request_spec:RequestSpec from_components(context,
            instance_uuid, image, flavor, numa_topology, pci_requests,
            filter_properties, instance_group, availability_zone,
            security_groups, project_id)
            generate_request_groups_from_pci_requests
            get_by_instance_uuid(context, instance_uuid)
            reset_forced_destinations
        nova.objects.service:Service get_by_compute_host(context, host)
        nova.objects.service:ServiceList get_all(context)
            get_by_binary(context, binary, include_disabled)
        nova.pci.request get_pci_requests_from_flavor(flavor,
            affinity_policy)
        nova.scheduler.client.report:SchedulerReportClient
            get_providers_in_tree(context, uuid) move_allocations(context,
            source_consumer_uuid, target_consumer_uuid)
        nova.scheduler.filters.pci_passthrough_filter:PciPassthroughFilter
            host_passes(host_state, spec_obj)
        nova.scheduler.host_manager:HostManager _choose_host_filters(
            filter_cls_names) _get_computes_for_cells(context, cells,
            compute_uuids) _get_instance_info(context, compute)
            _init_instance_info get_filtered_hosts(hosts, spec_obj)
            get_host_states_by_uuids(context, compute_uuids, spec_obj)
            host_state_cls(host, node, cell)
        nova.scheduler.utils resources_from_request_spec(ctxt, spec_obj,
            host_manager) setup_instance_group(context, request_spec)
        nova.scheduler.weights WeighedHost(obj, weight)
        nova.scheduler.weights:HostWeightHandler get_weighed_objects(weighers,
            obj_list, weighing_properties)
        nova.scheduler.weights.compute:BuildFailureWeigher
            weight_multiplier(host_state)
        nova.servicegroup:API get_updated_time(member) service_is_up(member)
        nova.virt.hardware get_pci_numa_policy_constraint(flavor, image_meta)
    """,
}
