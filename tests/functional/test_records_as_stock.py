# SPDX-License-Identifier: Apache-2.0

"""Records of ordinary instances on hosts without mix, as stock Nova's.

The same operations are played twice, with stock Nova and with this package.
All rows in the databases of Nova and all requests to Placement must be the
same, except for the differences that ``Allowed`` names. The script contains
no operation for which the package protects CPUs in another way than stock
Nova: a rebuild after a failed move, and the clean-up of a failed live
migration without shared disks (:mod:`nova_prio.compat.workarounds`). The hosts
recount twice between its chapters, because the second recount ends a lease.
"""

import difflib
import itertools
import json

from nova.compute import api
import nova.conf
import testtools

from nova_prio.model import traits
from nova_prio.objects import host_report
from nova_prio_scenario import cloud
from tests.functional import ordinary_operations
from tests.functional import ordinary_script
from tests.functional import recorded_cloud
from tests.functional import recorded_writes

CONF = nova.conf.CONF


class StockCloud(recorded_cloud.RecordedCloud):
    """Nova's own driver, filter, weighers and API."""

    driver = cloud.STOCK_DRIVER
    parts = frozenset()

    def _configure(self):
        self.flags(instances=-1, cores=-1, ram=-1, server_groups=-1,
                   server_group_members=-1, group='quota')
        # The package requires this option of Nova. Both runs have it.
        if 'disable_fallback_pcpu_query' in CONF.workarounds:
            self.flags(disable_fallback_pcpu_query=True, group='workarounds')
        self.flags(enabled_filters=[
            *CONF.filter_scheduler.enabled_filters, 'NUMATopologyFilter'],
            group='filter_scheduler')


class PriorityCloud(recorded_cloud.RecordedCloud):
    """This package everywhere, and no host that is configured for it."""

    driver = cloud.PRIORITY_DRIVER
    parts = frozenset(('api', 'compat', 'compute', 'scheduler', 'virt'))

    def setUp(self):
        super().setUp()
        self.stub_out('nova_prio.model.looks.LOOK_SECONDS', 0)


class Allowed:
    """The differences that are allowed between the writes of two runs.

    Each method returns a write without the difference, or None if nothing is
    left of it. One object serves one run.
    """

    def __init__(self):
        self._stats = {}

    def remove(self, writes):
        """Return the writes without all of these differences."""
        for difference in (self.heartbeats, self.traits, self.report,
                           self.tracebacks):
            writes = list(filter(None, map(difference, writes)))
        return list(self._compare_hosts_at_rest(writes))

    def _compare_hosts_at_rest(self, writes):
        """Merge the writes to the record of each host.

        The package counts in-flight moves, so the record may differ while
        instances move. It must be the same after the periodic tasks.
        """
        hosts = {}
        for write, following in itertools.zip_longest(writes, writes[1:]):
            if write.target == 'compute_nodes':
                before = hosts.get(write.row, write).values
                hosts[write.row] = write._replace(
                    verb='', rest='', values={**before, **write.values})
            else:
                yield write
            is_at_rest = write.step == ordinary_operations.PERIODIC_TASKS
            if is_at_rest and (
                    following is None or following.step != write.step):
                for host in hosts.values():
                    yield host._replace(step=write.step, values=dict(
                        sorted(host.values.items())))

    def heartbeats(self, write):
        """Each service reports that it is up. A clock decides how often."""
        if write.target == 'services' and 'report_count' in write.values:
            return None
        return write

    def traits(self, write):
        """The package marks its hosts, and creates the traits for that.

        Nova sends a set, which may have any order.
        """
        ours = {traits.CPU_PRIORITY, traits.CPU_PRIORITY_MIX}
        if write.place == recorded_writes.PLACEMENT:
            if write.target in {'/traits/' + trait for trait in ours}:
                return None
            if 'traits' in write.values:
                return write._replace(values={**write.values, 'traits': sorted(
                    set(write.values['traits']) - ours)})
        return write

    def report(self, write):
        """The package adds the report of a host to ``stats`` of its record.

        Nova saves the record when something in it has changed, the report
        included, and then sets ``updated_at``.
        """
        if write.target != 'compute_nodes':
            return write
        values = dict(write.values)
        if values.get('stats'):
            stats = json.loads(values.pop('stats'))
            stats.pop(host_report.STATS_KEY, None)
            if stats != self._stats.get(write.row):
                values['stats'] = json.dumps(stats)
            self._stats[write.row] = stats
        return write._replace(values=values) if set(values) - {
            'updated_at'} else None

    def tracebacks(self, write):
        """Nova saves the traceback of an error, with all methods in it.

        Its last line must be the same, and so must the text of the error.
        """
        return write._replace(values={
            **write.values, **{
                column: write.values[column].strip().splitlines()[-1]
                for column in ('details', 'traceback')
                if write.values.get(column)}})


class RecordsAsStock(testtools.TestCase):
    """Compare the records of each instance, host, consumer and so on.

    The order within a record matters. The order of the records does not.
    """

    def _play(self, cloud_class, chapters):
        """Return the writes by record, as recorded_writes.by_record() does."""
        with cloud_class.running() as running:
            self.assertEqual(cloud_class.parts, _parts(running))
            script = ordinary_script.Script(running)
            script.play(*chapters)
            return recorded_writes.by_record(
                Allowed().remove(running.recorder.writes), script.names)

    def _compare(self, chapters):
        stock = self._play(StockCloud, chapters)
        ours = self._play(PriorityCloud, chapters)
        self.assertEqual('', '\n\n'.join(_differences(stock, ours)))

    def test_moves(self):
        self._compare(ordinary_script.Script.MOVES)

    def test_failures(self):
        self._compare(ordinary_script.Script.FAILURES)


def _parts(running):
    """Return the names of the parts of this package that a cloud runs."""
    manager = running.scheduler.manager.host_manager
    loaded = {type(each) for each in (
        *manager.enabled_filters, *manager.weighers,
        *(getattr(compute.manager, name) for name in ('driver', 'rt')
          for compute in running.computes.values()))}
    modules = {cls.__module__ for each in (api.API, *loaded)
               for cls in each.__mro__}
    return {module.split('.')[1] for module in modules
            if module.startswith('nova_prio.')} - {'scenario'}


def _differences(stock, ours):
    """Yield a text for each record that differs."""
    for record in sorted({*stock, *ours}):
        pairs = list(itertools.zip_longest(
            stock.get(record, ()), ours.get(record, ()),
            fillvalue=(None, None)))
        steps = [{step for _, step in pair} - {None} for pair in pairs
                 if pair[0][0] != pair[1][0]]
        if steps:
            yield '%s, first in the step "%s":\n%s' % (
                record, '" or "'.join(sorted(steps[0])),
                '\n'.join(difflib.unified_diff(
                    *('\n'.join(text for text, _ in texts
                                if text).splitlines()
                      for texts in zip(*pairs)),
                    'stock', 'with the package', lineterm='')))
