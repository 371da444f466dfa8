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

"""What a compute tells the schedulers about its CPUs."""

from nova import exception
from nova.virt import hardware
from oslo_serialization import jsonutils
from oslo_utils import versionutils
from oslo_versionedobjects import base
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields

from nova_prio import capacity

STATS_KEY = 'nova_prio'


#: How many names of guests a report has, and the characters of each.
_MAX_NAMES = 3
_MAX_NAME = 64


def _some(names):
    """Return names as a text of bounded length.

    :param names: list of str
    """
    found = ', '.join(
        name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + '...'
        for name in names[:_MAX_NAMES])
    others = len(names) - _MAX_NAMES
    return found + (' and %d more' % others if others > 0 else '')


def cpu_set(text):
    """Return the CPUs of a set as a report writes it, a frozenset of numbers.

    :param text: str, such as '0-7', or '' for none
    """
    return frozenset(hardware.parse_cpu_spec(text) if text else ())


class UnreadableReport(ValueError):
    """A report that cannot be read, said in one sentence."""


@base.VersionedObjectRegistry.register
class HostReport(base.VersionedObject):
    """CPU sets, ratio, and the sellable and used CPUs of each row of a host.

    It travels as JSON text in the ``stats`` of the compute node, which the
    scheduler sees as ``host_state.stats``. It holds no time stamps: a report
    that says nothing new costs no database write.
    """

    # Version 1.0: Initial version
    # Version 1.1: Added low_by_cell
    # Version 1.2: Added partition_problem
    # Version 1.3: Added blocked_cpus
    # Version 1.4: Added blocked_by and problem
    VERSION = '1.4'
    OBJ_PROJECT_NAMESPACE = 'nova_prio'
    OBJ_SERIAL_NAMESPACE = 'nova_prio_object'

    fields = {
        # CPU numbers as the options write them, for example '0-7'.
        'cpu_dedicated_set': fields.StringField(),
        'cpu_shared_set': fields.StringField(),
        'mix': fields.BooleanField(),
        # How many CPUs a low-priority instance may float on.
        'floating_cpus': fields.IntegerField(),
        # Ratio in force, as an exact decimal.
        'cpu_allocation_ratio': fields.StringField(),
        # vCPUs of all instances when this report was made: what the
        # scheduler's view of the host has beyond it, a request consumed.
        'vcpus_used': fields.IntegerField(),
        'high_sellable': fields.IntegerField(),
        'high_used': fields.IntegerField(),
        'low_sellable': fields.IntegerField(),
        'low_used': fields.IntegerField(),
        'ordinary_sellable': fields.IntegerField(),
        'ordinary_used': fields.IntegerField(),
        # NUMA cell of the host -> vCPUs of the low-priority guests that have
        # a NUMA topology and are on that cell; cells without any are left
        # out.
        'low_by_cell': fields.DictOfIntegersField(default={}),
        # Why no guest with a priority can be started, a sentence; or empty.
        'partition_problem': fields.StringField(default=''),
        # Those of the dedicated set that nobody is pinned on, but where
        # guests float that were started with other CPU sets.
        'blocked_cpus': fields.StringField(default=''),
        # Names of the guests on these CPUs that are no instances of the host.
        'blocked_by': fields.StringField(default=''),
        # Why no priority instance is admitted, a sentence; or empty.
        'problem': fields.StringField(default=''),
    }

    @classmethod
    def of(cls, cpus, in_use, vcpus_used, low_by_cell,
           partition_problem=None, blocked=frozenset(), blocked_by=(),
           problem=''):
        """Return the report of a host.

        :param cpus: ``capacity.HostCPUs`` of the host
        :param in_use: ``capacity.Rows`` that are sold
        :param vcpus_used: vCPUs of all its instances
        :param low_by_cell: dict, NUMA cell -> vCPUs of the low-priority
            guests that have a NUMA topology and are on it
        :param partition_problem: why no guest with a priority can be started
        :param blocked: dedicated CPUs that are not pinned, but where guests
            float that were started with other CPU sets; frozenset of numbers
        :param blocked_by: list of the names of the guests on these CPUs that
            are no instances of the host
        :param problem: why no priority instance is admitted, or ''
        """
        sellable = cpus.sellable
        return cls(
            cpu_dedicated_set=hardware.format_cpu_spec(cpus.dedicated),
            cpu_shared_set=hardware.format_cpu_spec(cpus.shared),
            mix=cpus.mix,
            floating_cpus=len(cpus.floating),
            cpu_allocation_ratio=str(cpus.ratio),
            vcpus_used=vcpus_used,
            high_sellable=sellable.high, high_used=in_use.high,
            low_sellable=sellable.low, low_used=in_use.low,
            ordinary_sellable=sellable.ordinary,
            ordinary_used=in_use.ordinary,
            low_by_cell={str(cell): vcpus
                         for cell, vcpus in low_by_cell.items()},
            partition_problem=partition_problem or '',
            blocked_cpus=hardware.format_cpu_spec(blocked),
            blocked_by=_some(blocked_by), problem=problem)

    @classmethod
    def of_problem(cls, problem, vcpus_used):
        """Return the report of a host whose report cannot be made.

        It refuses priority instances, also in a scheduler that does not know
        ``problem``. For ordinary instances the host is like one of stock Nova.

        :param problem: why no priority instance is admitted, a sentence
        :param vcpus_used: vCPUs of all instances of the host
        """
        nothing = capacity.HostCPUs(
            frozenset(), frozenset(), capacity.exact_ratio(1), mix=False)
        return cls.of(nothing, nothing.sellable, vcpus_used, {},
                      problem=problem)

    @property
    def sellable(self):
        """The sellable CPUs as ``capacity.Rows``."""
        return capacity.Rows(
            self.high_sellable, self.low_sellable, self.ordinary_sellable)

    @property
    def used(self):
        """The used CPUs as ``capacity.Rows``."""
        return capacity.Rows(self.high_used, self.low_used,
                             self.ordinary_used)

    @property
    def shared_cpus(self):
        """The number of shared CPUs of the host."""
        return len(cpu_set(self.cpu_shared_set))

    @property
    def blocked(self):
        """The dedicated CPUs that guests of other times keep, a frozenset."""
        return cpu_set(self.blocked_cpus)

    @property
    def taken(self):
        """The ``capacity.Rows`` that no further instance can have."""
        return self.used._replace(high=self.high_used + len(self.blocked))

    @property
    def room(self):
        """The ``capacity.Rows`` that are left."""
        return capacity.room(self.sellable, self.taken)

    def obj_make_compatible(self, primitive, target_version):
        """Take out of a primitive what an older version does not know."""
        super().obj_make_compatible(primitive, target_version)
        target = versionutils.convert_version_to_tuple(target_version)
        if target < (1, 1):
            primitive.pop('low_by_cell', None)
        if target < (1, 2):
            primitive.pop('partition_problem', None)
        if target < (1, 3):
            primitive.pop('blocked_cpus', None)
        if target < (1, 4):
            primitive.pop('blocked_by', None)
            primitive.pop('problem', None)

    def to_stats(self):
        """Return the text that goes into the stats of the compute node."""
        self.obj_reset_changes()
        return jsonutils.dumps(self.obj_to_primitive(), sort_keys=True)

    @classmethod
    def from_stats(cls, stats):
        """Return the report that is in the stats of a compute node.

        Reports of an older and of a newer compute are read alike, as long as
        the major version is the same: a minor version only adds fields.

        :param stats: dict, key -> str, or None
        :returns: a HostReport, or None where there is no report
        :raises UnreadableReport: where there is one that cannot be read
        """
        text = (stats or {}).get(STATS_KEY)
        if text is None:
            return None
        try:
            report = cls.obj_from_primitive(
                _as_known(jsonutils.loads(text), cls.VERSION))
        except (ValueError, TypeError, KeyError, AttributeError,
                RecursionError,
                ovo_exception.VersionedObjectsException) as error:
            raise UnreadableReport(
                'the report of the host cannot be read (%s)' % error)
        # A compute of version 1.0 counts such guests as ordinary ones, one
        # of version 1.1 does not look at its partitions, one of version 1.2
        # does not look at what floats on its dedicated CPUs, one of version
        # 1.3 does not name the guests there.
        report.obj_set_defaults(
            'low_by_cell', 'partition_problem', 'blocked_cpus', 'blocked_by',
            'problem')
        missing = [name for name in cls.fields
                   if not report.obj_attr_is_set(name)]
        if missing:
            raise UnreadableReport(
                'the report of the host lacks %s' % ', '.join(missing))
        try:
            capacity.exact_ratio(report.cpu_allocation_ratio)
            report.blocked
            report.shared_cpus
        except (ValueError, exception.Invalid) as error:
            raise UnreadableReport(
                'the report of the host cannot be read (%s)' % error)
        return report


def _as_known(primitive, version):
    """Return a primitive; one of a later minor version as of ours.

    Fields that are not known are left out when it is read.
    """
    key = 'nova_prio_object.version'
    major, minor = versionutils.convert_version_to_tuple(primitive[key])
    known = versionutils.convert_version_to_tuple(version)
    if major == known[0] and minor > known[1]:
        return {**primitive, key: version}
    return primitive
