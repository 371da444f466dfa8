# SPDX-License-Identifier: Apache-2.0

"""The report of a nova-compute about its CPUs, for the schedulers."""

from nova import exception
from nova.virt import hardware
from oslo_serialization import jsonutils
from oslo_utils import versionutils
from oslo_versionedobjects import base
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields

from nova_prio.model import capacity

STATS_KEY = 'nova_prio'

#: Limits of ``blocked_by``: number of names, and characters of each.
_MAX_NAMES, _MAX_NAME = 3, 64
_SELLABLE = [row + '_sellable' for row in capacity.Rows._fields]
_USED = [row + '_used' for row in capacity.Rows._fields]
#: Field -> version of the report that added it.
_ADDED_IN = {'low_by_cell': (1, 1), 'partition_problem': (1, 2),
             'blocked_cpus': (1, 3), 'blocked_by': (1, 4), 'problem': (1, 4)}


def parse_cpu_set(text):
    """Return the CPU numbers in a text such as '0-7', or '', a frozenset."""
    return frozenset(hardware.parse_cpu_spec(text) if text else ())


class UnreadableReport(ValueError):
    """A report that cannot be read; the text is a sentence."""


@base.VersionedObjectRegistry.register
class HostReport(base.VersionedObject):
    """CPU sets, ratio, and the sellable and used vCPUs of each row of a host.

    The report is JSON text in the ``stats`` of the compute node, which the
    scheduler reads. It has no time stamp, so an unchanged report causes no
    database write.
    """

    VERSION = '1.4'
    OBJ_PROJECT_NAMESPACE = 'nova_prio'
    OBJ_SERIAL_NAMESPACE = 'nova_prio_object'

    fields = {
        # In the format of the options, for example '0-7'.
        'cpu_dedicated_set': fields.StringField(),
        'cpu_shared_set': fields.StringField(),
        'mix': fields.BooleanField(),
        'floating_cpus': fields.IntegerField(),  # how many
        'cpu_allocation_ratio': fields.StringField(),  # an exact decimal
        # vCPUs of all instances at the time of this report. If the scheduler
        # sees more, requests consumed the difference.
        'vcpus_used': fields.IntegerField(),
        # high_sellable, high_used, low_sellable and so on.
        **{name: fields.IntegerField() for name in (*_SELLABLE, *_USED)},
        # NUMA cell of the host -> vCPUs of its low-priority guests with a NUMA
        # topology. Cells without such guests are left out.
        'low_by_cell': fields.DictOfIntegersField(default={}),
        # Why the host cannot start guests with a priority: a sentence or ''.
        'partition_problem': fields.StringField(default=''),
        # Dedicated CPUs that no instance is pinned on, but that guests on
        # stale CPU sets or orphan guests use.
        'blocked_cpus': fields.StringField(default=''),
        # Names of the orphan guests on these CPUs.
        'blocked_by': fields.StringField(default=''),
        # Why the host refuses all priority instances: a sentence or ''.
        'problem': fields.StringField(default=''),
    }

    @classmethod
    def from_usage(cls, cpus, used, vcpus_used, low_by_cell,
                   partition_problem=None, blocked=frozenset(), blocked_by=(),
                   problem=''):
        """Return the report of a host; see the fields.

        :param cpus: ``capacity.HostCPUs``
        :param used: ``capacity.Rows``
        :param low_by_cell: dict, NUMA cell -> vCPUs
        :param blocked: frozenset of CPU numbers
        :param blocked_by: list of names
        """
        return cls(
            cpu_dedicated_set=hardware.format_cpu_spec(cpus.dedicated),
            cpu_shared_set=hardware.format_cpu_spec(cpus.shared),
            mix=cpus.mix, floating_cpus=len(cpus.floating),
            cpu_allocation_ratio=str(cpus.ratio), vcpus_used=vcpus_used,
            **dict(zip(_SELLABLE, cpus.sellable)),
            **dict(zip(_USED, used)),
            low_by_cell={str(cell): vcpus
                         for cell, vcpus in low_by_cell.items()},
            partition_problem=partition_problem or '',
            blocked_cpus=hardware.format_cpu_spec(blocked),
            blocked_by=_shorten_names(blocked_by), problem=problem)

    @classmethod
    def from_problem(cls, problem, vcpus_used):
        """Return a report for a host whose bookkeeping failed.

        A scheduler that does not know the field ``problem`` must refuse
        priority instances, too. Therefore the report has no CPUs. Ordinary
        instances are scheduled as in stock Nova.
        """
        no_cpus = capacity.HostCPUs(
            frozenset(), frozenset(), capacity.parse_ratio(1), mix=False)
        return cls.from_usage(no_cpus, no_cpus.sellable, vcpus_used, {},
                              problem=problem)

    @property
    def ratio(self):
        """The CPU allocation ratio as a Decimal."""
        return capacity.parse_ratio(self.cpu_allocation_ratio)

    @property
    def sellable(self):
        """The sellable ``capacity.Rows``."""
        return capacity.Rows(*(getattr(self, name) for name in _SELLABLE))

    @property
    def used(self):
        """The used ``capacity.Rows``."""
        return capacity.Rows(*(getattr(self, name) for name in _USED))

    @property
    def cpus(self):
        """The CPUs of the host as ``capacity.HostCPUs``."""
        return capacity.HostCPUs(
            parse_cpu_set(self.cpu_dedicated_set),
            parse_cpu_set(self.cpu_shared_set), self.ratio, self.mix)

    @property
    def shared_cpus(self):
        """The number of shared CPUs of the host."""
        return len(parse_cpu_set(self.cpu_shared_set))

    @property
    def blocked(self):
        """The CPUs of ``blocked_cpus``, a frozenset of numbers."""
        return parse_cpu_set(self.blocked_cpus)

    @property
    def taken(self):
        """The ``capacity.Rows`` that are used or blocked."""
        return self.used._replace(high=self.high_used + len(self.blocked))

    @property
    def room(self):
        """The remaining ``capacity.Rows``."""
        return capacity.calculate_remaining(self.sellable, self.taken)

    def obj_make_compatible(self, primitive, target_version):
        """Remove the fields that an older version does not have."""
        super().obj_make_compatible(primitive, target_version)
        target = versionutils.convert_version_to_tuple(target_version)
        for name, version in _ADDED_IN.items():
            if target < version:
                primitive.pop(name, None)

    def to_stats(self):
        """Return the text for the stats of the compute node."""
        self.obj_reset_changes()
        return jsonutils.dumps(self.obj_to_primitive(), sort_keys=True)

    @classmethod
    def from_stats(cls, stats):
        """Return the report in the stats of a compute node, or None.

        :param stats: dict, key -> str, or None
        :raises UnreadableReport: if the report cannot be read
        """
        text = (stats or {}).get(STATS_KEY)
        if text is None:
            return None
        try:
            primitive = _adopt_version(jsonutils.loads(text))
            report = cls.obj_from_primitive(primitive)
            report.obj_set_defaults()
            missing = [name for name in cls.fields if name not in report]
            if missing:
                raise ValueError('it lacks %s' % ', '.join(missing))
            # These properties parse text.
            report.ratio, report.blocked, report.shared_cpus
        except (ValueError, TypeError, KeyError, AttributeError,
                RecursionError, exception.Invalid,
                ovo_exception.VersionedObjectsException) as error:
            raise UnreadableReport(
                'the report of the host cannot be read (%s)' % error)
        return report


def _shorten_names(names):
    """Return names of guests as a text of bounded length."""
    text = ', '.join(
        name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + '...'
        for name in names[:_MAX_NAMES])
    others = len(names) - _MAX_NAMES
    return text + (' and %d more' % others if others > 0 else '')


def _adopt_version(primitive):
    """Return a primitive of a later minor version as one of this version."""
    # Minor versions only add fields, and unknown fields are ignored.
    key = 'nova_prio_object.version'
    version, known = map(versionutils.convert_version_to_tuple,
                         (primitive[key], HostReport.VERSION))
    if version[0] == known[0] and version > known:
        return {**primitive, key: HostReport.VERSION}
    return primitive
