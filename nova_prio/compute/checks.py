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

"""Configuration of nova-compute that priority instances depend on."""

from nova_prio import capacity


def problems(conf, dedicated, shared):
    """Return what is wrong with the configuration, one sentence each.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param dedicated: set of CPU numbers of ``[compute] cpu_dedicated_set``
    :param shared: set of CPU numbers of ``[compute] cpu_shared_set``
    :returns: list of str: option, value and remedy
    """
    if not conf.cpu_priority_mix_enable:
        return []
    found = []
    for name, cpus in (('cpu_dedicated_set', dedicated),
                       ('cpu_shared_set', shared)):
        if not cpus:
            found.append(
                "[DEFAULT] cpu_priority_mix_enable is true, but [compute] %s "
                "is empty; set it, or disable cpu_priority_mix_enable." % name)
    ratio = conf.cpu_allocation_ratio
    # A ratio that is kept in Placement may change at any time, and does not
    # stop a service.
    if not found and ratio and capacity.HostCPUs(
            frozenset(dedicated), frozenset(shared),
            capacity.exact_ratio(ratio), mix=True).sellable.low < 1:
        found.append(
            "[DEFAULT] cpu_priority_mix_enable is true, but with [DEFAULT] "
            "cpu_allocation_ratio = %s no low-priority vCPU can be sold on %d "
            "shared and %d dedicated CPUs; raise cpu_allocation_ratio or "
            "enlarge [compute] cpu_shared_set."
            % (ratio, len(shared), len(dedicated)))
    if conf.libvirt.cpu_power_management:
        found.append(
            "[libvirt] cpu_power_management is true beside [DEFAULT] "
            "cpu_priority_mix_enable, which needs idle dedicated CPUs online; "
            "disable one of them.")
    return found
