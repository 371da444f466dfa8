# SPDX-License-Identifier: Apache-2.0

"""Configuration of nova-compute that priority instances depend on."""

import pathlib

from nova import exception
from nova.virt import hardware

from nova_prio import conf as our_conf
from nova_prio.model import capacity

ISOLATED = pathlib.Path('/sys/devices/system/cpu/isolated')
ONLINE = pathlib.Path('/sys/devices/system/cpu/online')

_SETS = {'cpu_dedicated_set': hardware.get_cpu_dedicated_set,
         'cpu_shared_set': hardware.get_cpu_shared_set}


def find_problems(conf):
    """Return the errors of the configuration, one sentence each.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: list of str: option, value and remedy
    """
    found = our_conf.find_invalid(conf, ['cpu_priority_mix_enable'])
    if found:
        return found
    cpus = {}
    for name, read in _SETS.items():
        try:
            cpus[name] = frozenset(read() or ())
        except (exception.Invalid, ValueError) as error:
            return ["[compute] %s is '%s': %s; give CPU numbers, such as "
                    "0-3,8." % (name, getattr(conf.compute, name),
                                str(error).rstrip('.'))]
    dedicated, shared = cpus.values()
    if dedicated & shared:
        found.append(
            "[compute] cpu_dedicated_set and [compute] cpu_shared_set both "
            "hold CPUs %s; take them out of one of the two."
            % hardware.format_cpu_spec(dedicated & shared))
    if conf.cpu_priority_mix_enable:
        found += find_mix_problems(
            conf, dedicated, shared, conf.cpu_allocation_ratio)
    return found + find_low_emulator_problems(conf, dedicated)


def get_low_emulator_set(conf):
    """Return ``[nova_prio] low_emulator_set``.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: set of CPU numbers, empty if the option is not set
    :raises nova.exception.Invalid: if it is no CPU list, or one of no CPU
    """
    text = conf.nova_prio.low_emulator_set
    if not text:
        return set()
    cpus = hardware.parse_cpu_spec(text)
    if not cpus:
        raise exception.Invalid('it holds no CPU')
    return cpus


def find_low_emulator_problems(conf, dedicated):
    """Return why low emulator threads cannot run on their CPUs.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param dedicated: frozenset of the dedicated CPUs
    :returns: list of str: option, value and remedy
    """
    given = "[nova_prio] low_emulator_set is '%s'" % (
        conf.nova_prio.low_emulator_set)
    try:
        cpus = get_low_emulator_set(conf)
    except (exception.Invalid, ValueError) as error:
        return ['%s: %s; give CPU numbers, such as 0-3,8.'
                % (given, str(error).rstrip('.'))]
    found = []
    if cpus & dedicated:
        found.append(
            '%s, but CPUs %s are in [compute] cpu_dedicated_set; give CPUs '
            'outside of it, such as the housekeeping CPUs of the host.'
            % (given, hardware.format_cpu_spec(cpus & dedicated)))
    online = _kernel_cpus(ONLINE)
    if online and cpus - online:
        found.append(
            '%s, but CPUs %s are not online; give CPUs of %s.'
            % (given, hardware.format_cpu_spec(cpus - online),
               hardware.format_cpu_spec(online)))
    return found


def find_mix_problems(conf, dedicated, shared, ratio):
    """Return why this host cannot mix, one sentence each.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param dedicated: frozenset of CPU numbers
    :param shared: likewise
    :param ratio: CPU allocation ratio, or None if the options do not say
    :returns: list of str: option, value and remedy
    """
    found = [
        "[DEFAULT] cpu_priority_mix_enable is true, but [compute] %s is "
        "empty; set it, or disable cpu_priority_mix_enable." % name
        for name, cpus in zip(_SETS, (dedicated, shared)) if not cpus]
    # A ratio that is kept in Placement may change at any time, and does not
    # stop a service.
    if not found and ratio and capacity.HostCPUs(
            dedicated, shared, capacity.parse_ratio(ratio),
            mix=True).sellable.low < 1:
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
    isolated = dedicated & _kernel_cpus(ISOLATED)
    if isolated:
        found.append(
            "[compute] cpu_dedicated_set holds CPUs %s, which the kernel "
            "keeps out of its load balancing, so that low-priority guests "
            "would pile up on one of them; take them out of isolcpus on the "
            "kernel command line, or disable [DEFAULT] "
            "cpu_priority_mix_enable." % hardware.format_cpu_spec(isolated))
    return found


def _kernel_cpus(path):
    """Return the CPUs in a file of the kernel, a set; empty without it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return set()
    return hardware.parse_cpu_spec(text) if text else set()
