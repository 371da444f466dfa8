# SPDX-License-Identifier: Apache-2.0

"""Checks of the configuration of nova-compute.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of the host (:mod:`nova_prio.model.cpu_capacity`).
"""

import pathlib

from nova import exception
from nova.virt import hardware

from nova_prio import conf as prio_conf
from nova_prio.model import cpu_capacity

ISOLATED = pathlib.Path('/sys/devices/system/cpu/isolated')
ONLINE = pathlib.Path('/sys/devices/system/cpu/online')


def find_problems(conf):
    """Return the errors of the configuration, one sentence each.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: list of str: option, value and remedy
    """
    # Sentences about this option, which the other checks read.
    problems = prio_conf.find_invalid(conf, ['cpu_priority_mix_enable'])
    if problems:
        return problems
    sets = []
    for name, value, read in (
            ('cpu_dedicated_set', conf.compute.cpu_dedicated_set,
             hardware.get_cpu_dedicated_set),
            ('cpu_shared_set', conf.compute.cpu_shared_set,
             hardware.get_cpu_shared_set)):
        try:
            sets.append(frozenset(read() or ()))
        except (exception.Invalid, ValueError) as error:
            return [_format_invalid('compute', name, value, error)]
    dedicated, shared = sets
    if dedicated & shared:
        problems.append(
            "[compute] cpu_dedicated_set and [compute] cpu_shared_set both "
            "hold CPUs %s; take them out of one of the two."
            % hardware.format_cpu_spec(dedicated & shared))
    if conf.cpu_priority_mix_enable:
        # This function also checks planned CPUs and ratios, which the options
        # do not have yet. Here, pass those of the options.
        problems += find_mix_problems(
            conf, dedicated, shared, conf.cpu_allocation_ratio)
    return problems + find_low_emulator_problems(conf, dedicated)


def find_problems_of_nova(conf):
    """Return why Nova itself does not work with the CPU sets on this host.

    These are the rules of Nova's libvirt driver. It does not start with some
    old options beside CPU sets. If a CPU of a set is not online, it starts,
    but each run of its periodic task, which counts the resources of the host,
    fails.

    Call ``find_problems`` first: it must have found none.

    :returns: list of sentences: option, value and remedy
    """
    dedicated = hardware.get_cpu_dedicated_set() or set()
    shared = hardware.get_cpu_shared_set() or set()
    problems = []
    # Beside a shared set alone, Nova only warns of vcpu_pin_set.
    if conf.vcpu_pin_set and dedicated:
        problems.append(
            "[DEFAULT] vcpu_pin_set is '%s' beside [compute] "
            "cpu_dedicated_set, which replaces it; remove vcpu_pin_set."
            % conf.vcpu_pin_set)
    if conf.reserved_host_cpus and (dedicated or shared):
        problems.append(
            '[DEFAULT] reserved_host_cpus is %d beside CPU sets in [compute], '
            'which already leave out the CPUs of the host; remove '
            'reserved_host_cpus.' % conf.reserved_host_cpus)
    problems += _find_offline(
        "[compute] cpu_shared_set is '%s'" % conf.compute.cpu_shared_set,
        shared)
    # Nova itself takes dedicated CPUs online for its guests.
    if not conf.libvirt.cpu_power_management:
        problems += _find_offline(
            "[compute] cpu_dedicated_set is '%s'"
            % conf.compute.cpu_dedicated_set, dedicated)
    return problems


def _find_offline(given, cpus):
    """Return a sentence in a list if some CPUs are not online.

    :param given: text that names an option and its value
    :param cpus: set of CPU numbers, those of the option
    """
    # The set is empty if the kernel does not tell.
    online = _read_kernel_cpus(ONLINE)
    offline = cpus - online
    if not online or not offline:
        return []
    return ['%s, but CPUs %s are not online; give CPUs of %s.' % (
        given, hardware.format_cpu_spec(offline),
        hardware.format_cpu_spec(online))]


def _format_invalid(group, name, value, error):
    """Return the sentence about an option that is no list of CPUs.

    :param value: text of the option, or None
    """
    return ("[%s] %s is '%s': %s; give CPU numbers, such as 0-3,8."
            % (group, name, value, str(error).rstrip('.')))


def get_low_emulator_set(conf):
    """Return ``[nova_prio] low_emulator_set``, a set of CPU numbers.

    :returns: an empty set if the option is not set
    :raises nova.exception.Invalid: if it is not a list of CPUs, or excludes
        all CPUs that it names
    """
    text = conf.nova_prio.low_emulator_set
    if not text:
        return set()
    cpus = hardware.parse_cpu_spec(text)
    if not cpus:
        # The caller names the option.
        raise exception.Invalid('it holds no CPU')
    return cpus


def find_low_emulator_problems(conf, dedicated):
    """Return why ``[nova_prio] low_emulator_set`` cannot be used.

    These are the CPUs for the emulator threads of low-priority guests.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param dedicated: set of the dedicated CPUs, configured or planned
    :returns: list of sentences: option, value and remedy
    """
    value = conf.nova_prio.low_emulator_set
    try:
        cpus = get_low_emulator_set(conf)
    except (exception.Invalid, ValueError) as error:
        return [_format_invalid('nova_prio', 'low_emulator_set', value, error)]
    given = "[nova_prio] low_emulator_set is '%s'" % value
    problems = []
    if cpus & dedicated:
        problems.append(
            '%s, but CPUs %s are in [compute] cpu_dedicated_set; give CPUs '
            'outside of it, such as the housekeeping CPUs of the host.'
            % (given, hardware.format_cpu_spec(cpus & dedicated)))
    return problems + _find_offline(given, cpus)


def find_mix_problems(conf, dedicated, shared, ratio):
    """Return why ``cpu_priority_mix_enable`` cannot be true on this host.

    With this option, low-priority instances also run on dedicated CPUs.
    ``conf`` may have other CPU sets and another ratio than the parameters:
    "nova-prio host plan" checks planned ones.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param dedicated: set of the dedicated CPUs; ``shared`` likewise
    :param ratio: CPU allocation ratio, or None if no option sets the ratio
    :returns: list of sentences: option, value and remedy
    """
    problems = [
        "[DEFAULT] cpu_priority_mix_enable is true, but [compute] %s is "
        "empty; set it, or disable cpu_priority_mix_enable." % name
        for name, cpus in (('cpu_dedicated_set', dedicated),
                           ('cpu_shared_set', shared)) if not cpus]
    # A ratio that is kept in Placement may change at any time, and does not
    # stop a service.
    if not problems and ratio:
        sellable = cpu_capacity.calculate_sellable(
            len(dedicated), len(shared), cpu_capacity.parse_ratio(ratio),
            mix=True)
        # The vCPUs that may be sold to low-priority instances.
        if sellable.low < 1:
            problems.append(
                "[DEFAULT] cpu_priority_mix_enable is true, but with "
                "[DEFAULT] cpu_allocation_ratio = %s no low-priority vCPU can "
                "be sold on %d shared and %d dedicated CPUs; raise "
                "cpu_allocation_ratio or enlarge [compute] cpu_shared_set."
                % (ratio, len(shared), len(dedicated)))
    if conf.libvirt.cpu_power_management:
        problems.append(
            "[libvirt] cpu_power_management is true beside [DEFAULT] "
            "cpu_priority_mix_enable, which needs idle dedicated CPUs online; "
            "disable one of them.")
    isolated = dedicated & _read_kernel_cpus(ISOLATED)
    if isolated:
        problems.append(
            "[compute] cpu_dedicated_set holds CPUs %s, which the kernel "
            "keeps out of its load balancing, so that low-priority guests "
            "would pile up on one of them; take them out of isolcpus on the "
            "kernel command line, or disable [DEFAULT] "
            "cpu_priority_mix_enable." % hardware.format_cpu_spec(isolated))
    return problems


def _read_kernel_cpus(path):
    """Return the CPUs in a file of the kernel, a set; empty without it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return set()
    return hardware.parse_cpu_spec(text) if text else set()
