# SPDX-License-Identifier: Apache-2.0

"""The options of this package, which each service registers when it loads."""

from oslo_config import cfg

from nova_prio.model import maturity

GROUP = cfg.OptGroup(
    'nova_prio',
    title='Priority options',
    help='Options of high- and low-priority instances.')


def _mark(options):
    """Add the maturity of each option to its help; return the options."""
    for option in options:
        option.help += '\nMaturity: %s\n' % maturity.OPTIONS[option.name]
    return options


DEFAULT_OPTS = _mark([
    cfg.BoolOpt(
        'cpu_priority_mix_enable',
        default=False,
        deprecated_opts=[cfg.DeprecatedOpt(
            'cpu_priority_mix_enable', group='compute')],
        help="""
Let low-priority instances float on the dedicated CPUs of this host too.

If enabled, a low-priority instance may run on every CPU of ``[compute]
cpu_shared_set`` and ``[compute] cpu_dedicated_set``, otherwise only on those
of ``[compute] cpu_shared_set``. The option takes effect when nova-compute
starts. It is also read from the ``[compute]`` group.

Possible values:

* ``true``: both sets must be given, and the allocation ratio of the host must
  leave at least one low-priority vCPU to sell
* ``false``

Related options:

* ``[compute] cpu_dedicated_set`` and ``[compute] cpu_shared_set``
* ``[DEFAULT] cpu_allocation_ratio``
* ``[DEFAULT] compute_driver``: must be ``prio.PriorityLibvirtDriver``
"""),
])

PRIORITY_OPTS = _mark([
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Let nova-api decide the priority of new instances.

If enabled, nova-api checks the ``hw:cpu_priority`` extra spec and the
``priority`` scheduler hint of a new instance. It writes the priority into the
flavor that Nova stores with the instance. If disabled, an installed package
changes no answer of the API. You should enable this option last, after the
upgrade of the computes and the schedulers.
"""),
    cfg.StrOpt(
        'low_emulator_set',
        help="""
CPUs of the emulator and I/O threads of low-priority guests.

These threads start, stop, migrate and control a guest, and serve its disks.
If busy ordinary guests run on the same CPUs, the threads get no CPU time in an
idle low-priority partition, and low-priority guests do not start. The set
should therefore have CPUs that no guest keeps busy, such as the housekeeping
CPUs of the host outside of both CPU sets. A guest gets the CPUs when it starts
or migrates to the host, with and without ``cpu_priority_mix_enable``. The
option takes effect when nova-compute starts.

Possible values:

* a list of CPU numbers, ranges and exclusions, such as ``0,8-11,^9``. Each CPU
  must be online and must not be in ``[compute] cpu_dedicated_set``
* unset: the CPUs of ``[compute] cpu_shared_set``

Related options:

* ``[compute] cpu_dedicated_set`` and ``[compute] cpu_shared_set``
"""),
    cfg.FloatOpt(
        'priority_weight_multiplier',
        default=1.0,
        help="""
Multiplier of the weight that the PriorityWeighter gives to a host.

A host weighs more if the row that the request uses has more free vCPUs: the
high row for a high-priority instance, the low row for a low-priority one. The
aggregate metadata key ``priority_weight_multiplier`` overrides this option for
the hosts of an aggregate.

Possible values:

* a positive number: spread instances over the hosts
* a negative number: stack instances
* zero: disable the weigher

Related options:

* ``[filter_scheduler] weight_classes``
* ``[filter_scheduler] cpu_weight_multiplier``: must be ``0.0``, because the
  PriorityWeighter weighs ordinary instances as the CPU weigher does
* ``[filter_scheduler] ram_weight_multiplier``: ``0.0`` to stack instances
* ``[filter_scheduler] disk_weight_multiplier``: ``0.0`` to stack instances
"""),
    cfg.FloatOpt(
        'low_supply_weight_multiplier',
        default=0.0,
        help="""
Multiplier of the weight that the LowSupplyWeigher gives to a host.

For a low-priority instance, a host weighs more if its CPUs leave more time for
each low-priority vCPU, the new ones included. nova-compute measures this time,
the low supply of the host, over some minutes. A host whose low supply is
unknown weighs as much as the mean of the others. The aggregate metadata key
``low_supply_weight_multiplier`` overrides this option for the hosts of an
aggregate.

Possible values:

* a positive number: prefer hosts where low-priority guests get more CPU time.
  If it is many times the other multipliers, the CPU time decides first
* a negative number: prefer the other hosts
* zero: disable the weigher

Related options:

* ``[filter_scheduler] weight_classes``
* ``[nova_prio] priority_weight_multiplier``
"""),
    cfg.ListOpt(
        'affinity_domains',
        default=['host'],
        help="""
Failure domains over which server groups with a soft policy stack or spread.

Each domain is a key of aggregate metadata. The SoftAffinityWeigher and the
SoftAntiAffinityWeigher count the members of the group in the widest domain
first, then in the next one, and on the host last. Two hosts share a domain if
they have the same value of its key and share all wider domains. A host without
the key is a domain of its own.

Possible values:

* ``host``: count the members on each host only
* keys of aggregate metadata, the widest domain first, and ``host`` as the
  last one, such as ``zone,rack,host``

Related options:

* ``[filter_scheduler] weight_classes``
"""),
    cfg.BoolOpt(
        'affinity_same_priority',
        default=False,
        help="""
Count only group members that have the priority of the requested instance.

If enabled, the high-priority, the low-priority and the ordinary members of a
server group with a soft policy stack or spread independently.

Related options:

* ``[nova_prio] affinity_domains``
"""),
    *(cfg.FloatOpt(
        '%s_weight_multiplier' % policy,
        default=10.0,
        min=0,
        help="""
Multiplier of the weight that the %(weigher)s gives to a host.

The weight added for each rank that a host is better than the worst host. Any
other weigher adds at most its own multiplier. If this multiplier is larger
than the sum of theirs, the other weighers only decide between hosts of equal
rank. No aggregate metadata overrides this option.

Possible values:

* a positive number
* zero: disable the weigher

Related options:

* ``[nova_prio] affinity_domains``
* ``[filter_scheduler] %(policy)s_weight_multiplier``, and the aggregate
  metadata of that name: should be ``0.0``, or the group counts twice
""" % {'policy': policy, 'weigher': weigher})
      for policy, weigher in (
          ('soft_affinity', 'SoftAffinityWeigher'),
          ('soft_anti_affinity', 'SoftAntiAffinityWeigher'))),
])


def register_opts(conf):
    """Register the options; another call changes nothing."""
    conf.register_opts(DEFAULT_OPTS)
    conf.register_group(GROUP)
    conf.register_opts(PRIORITY_OPTS, group=GROUP)


def find_invalid(conf, names):
    """Return a sentence for each option with an invalid value.

    :param conf: ``oslo_config.cfg.ConfigOpts``
    :param names: names of the options of this package to read
    """
    problems = []
    for group, options in list_opts():
        values = conf[group.name] if group else conf
        for option in options:
            if option.name not in names:
                continue
            try:
                # Reading an option raises the error of its value.
                values[option.name]
            except cfg.ConfigSourceValueError as error:
                group_name = group.name if group else 'DEFAULT'
                problems.append('[%s] %s: %s; correct the value.' % (
                    group_name, option.name, str(error).rstrip('.')))
    return problems


def list_opts():
    """Return (group, options) pairs, for the sample generator."""
    return [(None, DEFAULT_OPTS), (GROUP, PRIORITY_OPTS)]


def is_registered(conf, group, option):
    """Return whether conf, a ``ConfigOpts``, has an option.

    :param group: name of the group, or 'DEFAULT'
    """
    if group == 'DEFAULT':
        return option in conf
    return group in conf and option in conf[group]
