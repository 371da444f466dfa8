#!/bin/bash
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

# The plug-in of DevStack, which sources this file: plugin.sh MODE [PHASE].

nova_prio_source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Print the enabled filters, with PriorityFilter in place of
# NUMATopologyFilter. DevStack and local.conf may have added others.
function nova_prio_filters {
    local filter filters=""
    local enabled
    enabled=$(iniget "$NOVA_CONF" filter_scheduler enabled_filters)
    for filter in ${enabled//,/ }; do
        case $filter in
        NUMATopologyFilter|PriorityFilter) ;;
        *) filters+=$filter, ;;
        esac
    done
    if [[ -z $filters ]]; then
        die $LINENO "$NOVA_CONF has no [filter_scheduler] enabled_filters."
    fi
    echo "${filters}PriorityFilter"
}

# nova-cpu.conf is a copy of nova.conf, which DevStack makes when it starts
# nova-compute. The other services of Nova ignore these options.
function nova_prio_configure_compute {
    local set
    for set in NOVA_PRIO_DEDICATED_SET NOVA_PRIO_SHARED_SET; do
        if [[ -z ${!set} ]]; then
            die $LINENO "$set is not set: name CPUs in local.conf."
        fi
    done
    iniset "$NOVA_CONF" DEFAULT compute_driver prio.PriorityLibvirtDriver
    iniset "$NOVA_CONF" DEFAULT cpu_priority_mix_enable "$NOVA_PRIO_MIX"
    iniset "$NOVA_CONF" DEFAULT cpu_allocation_ratio \
        "$NOVA_PRIO_CPU_ALLOCATION_RATIO"
    iniset "$NOVA_CONF" compute cpu_dedicated_set "$NOVA_PRIO_DEDICATED_SET"
    iniset "$NOVA_CONF" compute cpu_shared_set "$NOVA_PRIO_SHARED_SET"
    sudo "$NOVA_BIN_DIR/nova-prio-host" prepare
}

function nova_prio_configure_scheduler {
    # If nova_prio_filters ends, its message must end the script.
    local filters
    filters=$(nova_prio_filters) || exit 1
    iniset_multiline "$NOVA_CONF" filter_scheduler available_filters \
        nova.scheduler.filters.all_filters \
        nova_prio.scheduler.filters.all_filters
    iniset "$NOVA_CONF" filter_scheduler enabled_filters "$filters"
    local nova=nova.scheduler.weights.all_weighers
    iniset "$NOVA_CONF" filter_scheduler weight_classes \
        $nova,nova_prio.scheduler.weights.all_weighers
    local weigher
    for weigher in cpu soft_affinity soft_anti_affinity; do
        iniset "$NOVA_CONF" filter_scheduler ${weigher}_weight_multiplier 0.0
    done
    iniset "$NOVA_CONF" workarounds disable_fallback_pcpu_query true
}

# A second stack.sh without clean.sh may find the aggregate of the first.
function nova_prio_create_aggregate {
    local aggregate=(openstack --os-cloud devstack-admin aggregate)
    local hosts=""
    if ! hosts=$("${aggregate[@]}" show --format json --column hosts \
        "$NOVA_PRIO_AGGREGATE" 2>/dev/null); then
        "${aggregate[@]}" create --property priority_mix=true \
            "$NOVA_PRIO_AGGREGATE"
    fi
    # Nova refuses a host that the aggregate has.
    if is_service_enabled n-cpu && [[ $hosts != *"\"$(hostname)\""* ]]; then
        "${aggregate[@]}" add host "$NOVA_PRIO_AGGREGATE" "$(hostname)"
    fi
}

case "$1 ${2:-}" in
"stack install")
    setup_develop "$nova_prio_source" cli
    ;;
"stack post-config")
    if is_service_enabled n-cpu; then
        nova_prio_configure_compute
    fi
    if is_service_enabled n-sch; then
        nova_prio_configure_scheduler
    fi
    if is_service_enabled n-api; then
        iniset "$NOVA_CONF" nova_prio enabled true
    fi
    ;;
"stack test-config")
    # Not in the phase extra: DevStack discovers the hosts after it.
    if is_service_enabled n-api; then
        nova_prio_create_aggregate
    fi
    ;;
"unstack "*)
    # No service of this plug-in runs. The cgroups may have guests.
    ;;
"clean "*)
    sudo rm -f /etc/systemd/system/{high,low}_prio_machine.slice \
        /etc/nova-prio-host.conf
    sudo systemctl daemon-reload
    # Cgroups with guests stay until the next boot.
    sudo find /sys/fs/cgroup -maxdepth 2 -name '*_prio_machine.partition' \
        -exec rmdir '{}' + || true
    ;;
esac
