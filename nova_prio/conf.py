# SPDX-License-Identifier: Apache-2.0

"""The options of this package.

Each service registers them when it loads its part of the package.
"""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'nova_prio',
    title='Priority options',
    help='Options of the high and low priority instances.')

DEFAULT_OPTS = [
    cfg.BoolOpt(
        'cpu_priority_mix_enable',
        default=False,
        deprecated_opts=[cfg.DeprecatedOpt(
            'cpu_priority_mix_enable', group='compute')],
        help="""
Let low-priority instances float on the dedicated CPUs of this host too.

When enabled, a low-priority instance may run on every CPU of
``[compute] cpu_shared_set`` and ``[compute] cpu_dedicated_set``; when
disabled, on those of ``[compute] cpu_shared_set`` alone. It takes effect when
nova-compute starts. The option is also read from the ``[compute]`` group.

Possible values:

* ``true``: both sets must be given, and the allocation ratio of the host must
  leave at least one low-priority vCPU to sell
* ``false``

Related options:

* ``[compute] cpu_dedicated_set``
* ``[compute] cpu_shared_set``
* ``[DEFAULT] cpu_allocation_ratio``
* ``[DEFAULT] compute_driver``: must be ``prio.PriorityLibvirtDriver``
"""),
]

PRIORITY_OPTS = [
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Let nova-api decide the priority of new instances.

When enabled, nova-api checks the ``hw:cpu_priority`` extra spec and the
``priority`` scheduler hint of a new instance and writes the priority into the
flavor that is kept with the instance. When disabled, an installed package
changes no answer of the API. Enable it last: after the computes and the
schedulers.

Possible values:

* ``true``
* ``false``
"""),
    cfg.StrOpt(
        'low_emulator_set',
        help="""
CPUs of the emulator and I/O threads of low-priority guests.

These threads start, stop, migrate and control a guest, and serve its disks.
If they share CPUs with busy ordinary guests, they get no CPU time in an idle
low-priority partition, and low-priority guests do not start. Give them CPUs
that no guest keeps busy, such as the housekeeping CPUs of the host outside
of both CPU sets. A guest gets the CPUs when it is started or migrated to the
host, with and without ``cpu_priority_mix_enable``. The option takes effect
when nova-compute starts.

Possible values:

* a list of CPU numbers, ranges and exclusions, such as ``0,8-11,^9``. No CPU
  may be in ``[compute] cpu_dedicated_set``, and each must be online
* unset: the CPUs of ``[compute] cpu_shared_set``

Related options:

* ``[compute] cpu_dedicated_set``
* ``[compute] cpu_shared_set``
"""),
    cfg.FloatOpt(
        'priority_weight_multiplier',
        default=1.0,
        help="""
Multiplier of the weight that the PriorityWeighter gives to a host.

A host with more CPUs left in the row that the request draws from (the high
row for a high-priority instance, the low row for a low-priority one) weighs
more. The aggregate metadata key ``priority_weight_multiplier`` overrides it
for the hosts of an aggregate.

Possible values:

* a positive number spreads instances over the hosts
* a negative number stacks them
* zero switches the weigher off

Related options:

* ``[filter_scheduler] weight_classes``
* ``[filter_scheduler] cpu_weight_multiplier``: must be ``0.0`` beside the
  PriorityWeighter, which weighs ordinary instances as the CPU weigher does
"""),
    cfg.ListOpt(
        'affinity_domains',
        default=['host'],
        help="""
Failure domains over which server groups with a soft policy stack or spread.

The SoftAffinityWeigher and the SoftAntiAffinityWeigher compare hosts by the
members of the group in the widest domain first, then in the next one, and
last by those on the host itself. Each is a key of aggregate metadata; hosts
with the same value in the same wider domain share a domain. A host without the
key is a domain of its own.

Possible values:

* ``host``: hosts alone
* keys of aggregate metadata from the widest domain on, and ``host`` as the
  last one, such as ``zone,rack,host``

Related options:

* ``[filter_scheduler] weight_classes``
"""),
    cfg.BoolOpt(
        'affinity_same_priority',
        default=False,
        help="""
Count only members that have the priority of the instance that is placed.

When enabled, the high-priority, the low-priority and the ordinary members of
a server group with a soft policy stack or spread independently.

Possible values:

* ``true``
* ``false``

Related options:

* ``[nova_prio] affinity_domains``
"""),
    *(cfg.FloatOpt(
        '%s_weight_multiplier' % policy,
        default=10.0,
        min=0,
        help="""
Multiplier of the weight that the %(weigher)s gives to a host.

Weight added for each rank that a host is better than the worst host. All other
weighers give a host at most their own multiplier more than another. If this
one is larger than the sum of theirs, the policy of the group decides, and they
decide between hosts of equal rank. It is the same for all hosts: no aggregate
metadata overrides it.

Possible values:

* a positive number
* zero switches the weigher off

Related options:

* ``[nova_prio] affinity_domains``
* ``[filter_scheduler] %(policy)s_weight_multiplier``, and the aggregate
  metadata of that name: should be ``0.0``, or the group counts twice
""" % {'policy': policy, 'weigher': weigher})
      for policy, weigher in (
          ('soft_affinity', 'SoftAffinityWeigher'),
          ('soft_anti_affinity', 'SoftAntiAffinityWeigher'))),
]


def register_opts(conf):
    """Register the options; calling it again changes nothing.

    :param conf: an ``oslo_config.cfg.ConfigOpts``
    """
    conf.register_opts(DEFAULT_OPTS)
    conf.register_group(GROUP)
    conf.register_opts(PRIORITY_OPTS, group=GROUP)


def find_invalid(conf, names):
    """Return the options of this package whose values are not valid.

    :param conf: ``oslo_config.cfg.ConfigOpts`` with these options
    :param names: names of the options that a service reads
    :returns: list of str, one sentence each
    """
    found = []
    for group, options in list_opts():
        values = conf[group.name] if group else conf
        for option in options:
            try:
                if option.name in names:
                    values[option.name]
            except cfg.ConfigSourceValueError as error:
                found.append('[%s] %s: %s; correct the value.' % (
                    group.name if group else 'DEFAULT', option.name,
                    str(error).rstrip('.')))
    return found


def list_opts():
    """Return the options for the sample generator.

    :returns: list of (group, list of options) pairs
    """
    return [(None, DEFAULT_OPTS), (GROUP, PRIORITY_OPTS)]
