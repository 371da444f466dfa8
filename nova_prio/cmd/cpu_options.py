# SPDX-License-Identifier: Apache-2.0

"""The CPUs that the options of ``nova-prio host plan`` plan for a host."""

import contextlib
import decimal
import re

from osc_lib import exceptions

from nova_prio.cmd import report
from nova_prio.model import cpu_capacity


def parse_cpus(parsed_args):
    """Return the CPU sets, the ratio and mix that the options plan.

    Mix is the option ``cpu_priority_mix_enable``: low-priority instances may
    also run on the dedicated CPUs, so it needs dedicated and shared CPUs.

    :returns: ``cpu_capacity.HostCPUs``
    :raises CommandError: if the options contradict each other, or one has a
        wrong value
    """
    from nova.virt import hardware
    dedicated = _parse_cpu_set('--dedicated', parsed_args.dedicated)
    shared = _parse_cpu_set('--shared', parsed_args.shared)
    ratio = report.get_number(
        parsed_args, 'ratio', least=decimal.Decimal('0.0001'),
        most=cpu_capacity.MOST_RATIO, parse=cpu_capacity.parse_ratio)
    cpus = cpu_capacity.HostCPUs(
        dedicated=dedicated, shared=shared, ratio=ratio, mix=parsed_args.mix)
    both = cpus.dedicated & cpus.shared
    problem = None
    if both:
        problem = ('--dedicated and --shared both hold CPUs %s; a CPU must be '
                   'in one of the two.' % hardware.format_cpu_spec(both))
    elif cpus.mix and not (cpus.dedicated and cpus.shared):
        problem = ('Mix needs --dedicated and --shared; give both, or '
                   '--no-mix.')
    elif not (cpus.dedicated or cpus.shared):
        problem = ('Neither --dedicated nor --shared is given; give one or '
                   'both.')
    # ``sellable.low`` is how many vCPUs that are not pinned the host may sell.
    # With mix and none of these, nova-compute does not start. Without mix, it
    # is no problem: the host may be for pinned vCPUs only.
    elif cpus.mix and cpus.sellable.low < 1:
        problem = ('--ratio is %s, which leaves no sellable low-priority '
                   'vCPU; use a larger ratio, or more CPUs for --shared.'
                   % cpus.ratio)
    if problem:
        raise exceptions.CommandError(problem)
    return cpus


def _parse_cpu_set(option, text):
    """Return the CPU numbers of an option, a frozenset.

    :param option: name of the option, for the error
    :param text: such as 0-3,8
    :raises CommandError: if the text is no list of CPUs, or a number is too
        large
    """
    from nova import exception
    from nova.virt import hardware
    # After one of these errors, go on with the refusal below.
    with contextlib.suppress(exception.Invalid, ValueError):
        numbers = [int(number) for number in re.findall('[0-9]+', text)]
        # Nova makes a set even of a huge range, so check the numbers first.
        if all(number < cpu_capacity.MOST_CPUS for number in numbers):
            return frozenset(hardware.parse_cpu_spec(text))
    report.refuse(option, text, 'CPU numbers below %d, such as 0-3,8'
                  % cpu_capacity.MOST_CPUS)


def check_cpus_exist(existing, planned_cpus):
    """Raise CommandError for planned CPUs that a host does not have.

    :param existing: set of the CPU numbers of the host, empty if they are
        unknown: on some platforms, libvirt lists no NUMA cells
    :param planned_cpus: ``cpu_capacity.HostCPUs``
    """
    from nova.virt import hardware
    unknown = (planned_cpus.dedicated | planned_cpus.shared) - existing
    if existing and unknown:
        raise exceptions.CommandError(
            '--dedicated or --shared holds CPUs %s; allowed are the CPUs of '
            'the host: %s.' % (hardware.format_cpu_spec(unknown),
                               hardware.format_cpu_spec(existing)))
