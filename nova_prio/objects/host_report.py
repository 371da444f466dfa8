# SPDX-License-Identifier: Apache-2.0

"""The stored form of the report of a nova-compute about its CPUs.

The rows are explained in :mod:`nova_prio.model.cpu_capacity`.
"""

import functools

from nova import exception
from nova.virt import hardware
from oslo_serialization import jsonutils
from oslo_versionedobjects import base
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import low_supply
from nova_prio.model import memory_pages

STATS_KEY = 'nova_prio'
_VERSION_KEY = 'nova_prio_object.version'


def parse_cpu_set(text):
    """Return a frozenset of the CPU numbers in a text such as '0-7' or ''."""
    return frozenset(hardware.parse_cpu_spec(text))


class UnreadableReport(ValueError):
    """A report that cannot be read; the text is a sentence."""


@base.VersionedObjectRegistry.register
class HostReport(base.VersionedObject):
    """A ``capacity_report.CapacityReport`` as it is stored.

    The report is JSON text in the ``stats`` of the compute node, which the
    schedulers read. It has no time stamp, so that an unchanged report
    causes no database write. A new minor version may only add fields with a
    default: schedulers read all reports of their own major version.
    """

    VERSION = '1.7'
    OBJ_PROJECT_NAMESPACE = 'nova_prio'
    OBJ_SERIAL_NAMESPACE = 'nova_prio_object'

    fields = {
        # In the format of the options, for example '0-7'.
        'cpu_dedicated_set': fields.StringField(),
        'cpu_shared_set': fields.StringField(),
        'mix': fields.BooleanField(),
        # Number of the CPUs where a low-priority instance may run.
        'floating_cpus': fields.IntegerField(),
        'cpu_allocation_ratio': fields.StringField(),  # an exact decimal
        'vcpus_used': fields.IntegerField(),
        'low_by_cell': fields.DictOfIntegersField(default={}),
        'partition_problem': fields.StringField(default=''),
        'blocked_cpus': fields.StringField(default=''),
        'blocked_by': fields.StringField(default=''),
        'problem': fields.StringField(default=''),
        'leased_cpus': fields.StringField(default=''),
        # A memory_pages.SmallPages as a dict; empty if it is None.
        'small_pages': fields.DictOfIntegersField(default={}),
        # A low_supply.LowSupply as a dict without None; empty if it is None.
        'low_supply': fields.DictOfIntegersField(default={}),
        'high_sellable': fields.IntegerField(),
        'low_sellable': fields.IntegerField(),
        'ordinary_sellable': fields.IntegerField(),
        'high_used': fields.IntegerField(),
        'low_used': fields.IntegerField(),
        'ordinary_used': fields.IntegerField(),
    }

    @classmethod
    def to_stats(cls, report):
        """Return the text of a CapacityReport for the stats of its node.

        :param report: ``capacity_report.CapacityReport``. Its ``problem`` is
            why the host refuses all instances with a priority, and its
            ``partition_problem`` why it cannot start their guests. ``blocked``
            and ``leased`` are dedicated CPUs that no new instance may get.
            ``sellable`` and ``used`` are the vCPUs that the host may sell and
            has sold, three numbers each: pinned vCPUs (``high``), all shared
            vCPUs (``low``), and those without low priority (``ordinary``).
            ``low_supply`` is the CPU time that low-priority guests can get.
        """
        cpus = report.cpus
        # The vCPUs of low-priority instances on each NUMA cell of the host.
        low_by_cell = {str(cell): vcpus
                       for cell, vcpus in report.low_by_cell.items()}
        small = {}
        if report.small_pages is not None:
            small = report.small_pages._asdict()
        supply = {}
        if report.low_supply is not None:
            for name, value in report.low_supply._asdict().items():
                # The stored dict takes no None, which stands for a time that
                # libvirt does not tell.
                if value is not None:
                    supply[name] = value
        stored = cls(
            cpu_dedicated_set=hardware.format_cpu_spec(cpus.dedicated),
            cpu_shared_set=hardware.format_cpu_spec(cpus.shared),
            mix=cpus.mix, floating_cpus=report.floating_cpus,
            cpu_allocation_ratio=str(cpus.ratio),
            vcpus_used=report.vcpus_used, low_by_cell=low_by_cell,
            partition_problem=report.partition_problem,
            blocked_cpus=hardware.format_cpu_spec(report.blocked),
            blocked_by=report.blocked_by, problem=report.problem,
            leased_cpus=hardware.format_cpu_spec(report.leased),
            small_pages=small, low_supply=supply,
            high_sellable=report.sellable.high,
            low_sellable=report.sellable.low,
            ordinary_sellable=report.sellable.ordinary,
            high_used=report.used.high, low_used=report.used.low,
            ordinary_used=report.used.ordinary)
        stored.obj_reset_changes()
        return jsonutils.dumps(stored.obj_to_primitive(), sort_keys=True)

    def _to_report(self):
        """Return the CapacityReport, the reverse of :func:`to_stats`.

        Rows are numbers of vCPUs that the host may sell. Blocked and leased
        CPUs are dedicated CPUs that no new instance may get. The low supply is
        the CPU time that low-priority guests can get.

        :raises ValueError: if the text of a field is invalid
        :raises nova.exception.Invalid: if a CPU set is invalid
        """
        # The vCPUs of low-priority instances on each NUMA cell of the host.
        low_by_cell = {int(cell): vcpus
                       for cell, vcpus in self.low_by_cell.items()}
        sellable = cpu_capacity.Rows(
            high=self.high_sellable, low=self.low_sellable,
            ordinary=self.ordinary_sellable)
        used = cpu_capacity.Rows(
            high=self.high_used, low=self.low_used,
            ordinary=self.ordinary_used)
        small = None
        if self.small_pages:
            small = memory_pages.SmallPages(
                page_kb=self.small_pages['page_kb'],
                total_mb=self.small_pages['total_mb'],
                free_mb=self.small_pages['free_mb'])
        return capacity_report.CapacityReport(
            cpus=_make_cpus(self.cpu_dedicated_set, self.cpu_shared_set,
                            self.cpu_allocation_ratio, self.mix),
            sellable=sellable, used=used,
            vcpus_used=self.vcpus_used, low_by_cell=low_by_cell,
            partition_problem=self.partition_problem,
            blocked=parse_cpu_set(self.blocked_cpus),
            blocked_by=self.blocked_by, problem=self.problem,
            leased=parse_cpu_set(self.leased_cpus), small_pages=small,
            low_supply=self._read_supply())

    def _read_supply(self):
        """Return the LowSupply; None if it is missing or cannot be true.

        This is the CPU time that low-priority guests of the host can get, in
        percent of one CPU, and the part of the time that their vCPUs wait for
        a CPU, which is missing if libvirt does not tell it.

        The CPU sets of the report do not depend on it, so that an absurd value
        must not make the report unreadable.
        """
        if 'cpu_percent' not in self.low_supply:
            return None
        supply = low_supply.LowSupply(
            cpu_percent=self.low_supply['cpu_percent'],
            wait_percent=self.low_supply.get('wait_percent'))
        if low_supply.is_plausible(supply, self.floating_cpus):
            return supply
        return None

    @classmethod
    def from_stats(cls, stats):
        """Return the CapacityReport in the stats of a compute node, or None.

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
            stored = cls.obj_from_primitive(primitive)
            stored.obj_set_defaults()
            missing = [name for name in cls.fields if name not in stored]
            if missing:
                raise ValueError('it lacks %s' % ', '.join(missing))
            return stored._to_report()
        except (ValueError, TypeError, KeyError, AttributeError,
                RecursionError, exception.Invalid,
                ovo_exception.VersionedObjectsException) as error:
            raise UnreadableReport(
                'the report of the host cannot be read (%s)' % error)


@functools.lru_cache(maxsize=64)
def _make_cpus(dedicated, shared, ratio, mix):
    """Return the ``cpu_capacity.HostCPUs``, the same object for equal hosts.

    :param dedicated: set of CPUs as text, such as '0-7'
    :param shared: set of CPUs as text
    :param ratio: exact decimal as text
    :param mix: whether the host has ``cpu_priority_mix_enable``
    """
    return cpu_capacity.HostCPUs(
        dedicated=parse_cpu_set(dedicated), shared=parse_cpu_set(shared),
        ratio=cpu_capacity.parse_ratio(ratio), mix=mix)
