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

"""What a host has sold beyond what it may sell, said per instance."""

from oslo_log import log as logging

from nova_prio import capacity

LOG = logging.getLogger(__name__)


class Excess:
    """Warns of each instance on an oversold row, once while it lasts.

    A row is oversold where the configuration changed while instances were
    there: mix was switched off, a CPU set shrank, the ratio fell.
    """

    def __init__(self):
        self._said = frozenset()

    def warn(self, report, usages):
        """Write a WARNING for each instance that was not warned of yet.

        :param report: HostReport of the host
        :param usages: nova_prio.compute.usage.UsageLedger
        """
        found = {}
        for index, row in enumerate(capacity.Rows._fields):
            sold, sellable = report.used[index], report.sellable[index]
            if sold > sellable:
                found.update({
                    (uuid, row): (sold, sellable, drawn[index])
                    for uuid, drawn in usages.drawn_by_instance().items()
                    if drawn[index]})
        for (uuid, row), numbers in found.items():
            if (uuid, row) not in self._said:
                LOG.warning(
                    'Too much is sold of the %(row)s row of this host: '
                    '%(sold)d of %(sellable)d CPUs, %(drawn)d of them to this '
                    'instance. It keeps running, and the row admits nothing '
                    'until it fits: move instances away, or set '
                    'cpu_priority_mix_enable, the CPU sets and the CPU '
                    'allocation ratio as they were.',
                    dict(zip(('sold', 'sellable', 'drawn'), numbers),
                         row=row), instance_uuid=uuid)
        self._said = frozenset(found)
