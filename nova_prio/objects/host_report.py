# SPDX-License-Identifier: Apache-2.0

"""The report of a nova-compute about its CPUs, for the schedulers."""

from nova import exception
from nova.virt import hardware
from oslo_serialization import jsonutils
from oslo_versionedobjects import base
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields

from nova_prio.model import capacity

STATS_KEY = 'nova_prio'
_VERSION_KEY = 'nova_prio_object.version'

#: Limits of ``blocked_by``: number of names, and characters of each.
_MAX_NAMES, _MAX_NAME = 3, 64
_SELLABLE = [row + '_sellable' for row in capacity.Rows._fields]
_USED = [row + '_used' for row in capacity.Rows._fields]


def parse_cpu_set(text):
    """Return a frozenset of the CPU numbers in a text such as '0-7' or ''."""
    return frozenset(hardware.parse_cpu_spec(text) if text else ())


class UnreadableReport(ValueError):
    """A report that cannot be read; the text is a sentence."""


@base.VersionedObjectRegistry.register
class HostReport(base.VersionedObject):
    """CPU sets, ratio, and the sellable and used vCPUs of each row of a host.

    The report is JSON text in the ``stats`` of the compute node, which the
    scheduler reads. The report has no time stamp, so that an unchanged report
    causes no database write. A new minor version may only add fields with a
    default: schedulers read all reports of their own major version.
    """

    VERSION = '1.5'
    OBJ_PROJECT_NAMESPACE = 'nova_prio'
    OBJ_SERIAL_NAMESPACE = 'nova_prio_object'

    fields = {
        # In the format of the options, for example '0-7'.
        'cpu_dedicated_set': fields.StringField(),
        'cpu_shared_set': fields.StringField(),
        'mix': fields.BooleanField(),
        'floating_cpus': fields.IntegerField(),  # number of floating CPUs
        'cpu_allocation_ratio': fields.StringField(),  # an exact decimal
        # vCPUs of all instances at the time of this report. The scheduler
        # compares the number with vcpus_used of its host state.
        'vcpus_used': fields.IntegerField(),
        # high_sellable, high_used, low_sellable and so on.
        **{name: fields.IntegerField() for name in (*_SELLABLE, *_USED)},
        # NUMA cell of the host -> vCPUs of the low-priority guests with a NUMA
        # topology on this cell. The dict has no zeros.
        'low_by_cell': fields.DictOfIntegersField(default={}),
        # Why the host cannot start guests with a priority: a sentence or ''.
        'partition_problem': fields.StringField(default=''),
        # Dedicated CPUs that no instance is pinned on, but that guests on
        # stale CPU sets or orphan guests use.
        'blocked_cpus': fields.StringField(default=''),
        # Names of the orphan guests on the CPUs of blocked_cpus.
        'blocked_by': fields.StringField(default=''),
        # Why the host refuses all priority instances: a sentence or ''.
        'problem': fields.StringField(default=''),
        # Dedicated CPUs that count as used, but that Nova's topology of the
        # host does not show as pinned: the instance moves, or has just left.
        'leased_cpus': fields.StringField(default=''),
    }

    @classmethod
    def from_usage(cls, cpus, used, vcpus_used, low_by_cell,
                   partition_problem=None, blocked=frozenset(), blocked_by=(),
                   problem='', leased=frozenset()):
        """Return the report of a host; see the fields.

        :param cpus: ``capacity.HostCPUs``
        :param used: ``capacity.Rows``
        :param low_by_cell: dict, NUMA cell -> vCPUs
        :param blocked: frozenset of CPU numbers; ``leased`` likewise
        :param blocked_by: list of the names of guests
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
            blocked_by=_shorten_names(blocked_by), problem=problem,
            leased_cpus=hardware.format_cpu_spec(leased))

    @classmethod
    def from_problem(cls, problem, vcpus_used):
        """Return a report for a host whose usage could not be counted.

        A scheduler that does not know the field ``problem`` must refuse
        priority instances, too. Therefore the report has no CPUs. Ordinary
        instances are scheduled as in stock Nova.

        :param problem: sentence for the field ``problem``
        :param vcpus_used: vCPUs of all instances, as Nova counts them
        """
        no_cpus = capacity.HostCPUs(
            frozenset(), frozenset(), capacity.parse_ratio(1), mix=False)
        return cls.from_usage(
            cpus=no_cpus, used=capacity.Rows(0, 0, 0), vcpus_used=vcpus_used,
            low_by_cell={}, problem=problem)

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
    def hidden(self):
        """The free CPUs in Nova's topology that no instance may be pinned on.

        A frozenset: the CPUs of ``blocked_cpus`` and of ``leased_cpus``.
        """
        return self.blocked | parse_cpu_set(self.leased_cpus)

    @property
    def used_or_blocked(self):
        """The ``capacity.Rows`` that are used or blocked."""
        return self.used._replace(high=self.high_used + len(self.blocked))

    @property
    def remaining(self):
        """The remaining ``capacity.Rows``."""
        return capacity.calculate_remaining(
            self.sellable, self.used_or_blocked)

    @property
    def left(self):
        """The remaining ``capacity.Rows`` that new instances can have."""
        return capacity.calculate_left(self.sellable, self.used_or_blocked)

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
            primitive = jsonutils.loads(text)
            if primitive[_VERSION_KEY].startswith('1.'):
                # Minor versions only add fields. Unknown fields are ignored.
                primitive[_VERSION_KEY] = cls.VERSION
            report = cls.obj_from_primitive(primitive)
            report.obj_set_defaults()
            missing = [name for name in cls.fields if name not in report]
            if missing:
                raise ValueError('it lacks %s' % ', '.join(missing))
            # These properties raise ValueError if their text is invalid.
            report.ratio, report.hidden, report.shared_cpus
        except (ValueError, TypeError, KeyError, AttributeError,
                RecursionError, exception.Invalid,
                ovo_exception.VersionedObjectsException) as error:
            raise UnreadableReport(
                'the report of the host cannot be read (%s)' % error)
        return report


def _shorten_names(names):
    """Return a list of names of guests as a text of bounded length."""
    text = ', '.join(
        name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + '...'
        for name in names[:_MAX_NAMES])
    others = len(names) - _MAX_NAMES
    return text + (' and %d more' % others if others > 0 else '')
