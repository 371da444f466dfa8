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

from nova.virt import hardware
from oslo_serialization import jsonutils
from oslo_versionedobjects import base
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields

from nova_prio import capacity

STATS_KEY = 'nova_prio'


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
    VERSION = '1.0'
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
    }

    @classmethod
    def of(cls, cpus, in_use, vcpus_used):
        """Return the report of a host.

        :param cpus: ``capacity.HostCPUs`` of the host
        :param in_use: ``capacity.Rows`` that are sold
        :param vcpus_used: vCPUs of all its instances
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
            ordinary_used=in_use.ordinary)

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

    def to_stats(self):
        """Return the text that goes into the stats of the compute node."""
        self.obj_reset_changes()
        return jsonutils.dumps(self.obj_to_primitive(), sort_keys=True)

    @classmethod
    def from_stats(cls, stats):
        """Return the report that is in the stats of a compute node.

        :param stats: dict, key -> str, or None
        :returns: a HostReport, or None where there is no report
        :raises UnreadableReport: where there is one that cannot be read
        """
        text = (stats or {}).get(STATS_KEY)
        if text is None:
            return None
        try:
            report = cls.obj_from_primitive(jsonutils.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError,
                RecursionError,
                ovo_exception.VersionedObjectsException) as error:
            raise UnreadableReport(
                'the report of the host cannot be read (%s)' % error)
        missing = [name for name in cls.fields
                   if not report.obj_attr_is_set(name)]
        if missing:
            raise UnreadableReport(
                'the report of the host lacks %s' % ', '.join(missing))
        return report
