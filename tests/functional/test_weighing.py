# SPDX-License-Identifier: Apache-2.0

"""The PriorityWeighter with Nova's own weighers and weight handler."""

import nova.conf
from nova import context
from nova import objects

from nova_prio.objects import host_report
from tests.functional import base

CONF = nova.conf.CONF


class Weighing(base.FunctionalTest):
    """Small hosts; each name ends in a digit."""

    def _start_hosts(self, *memory_mb):
        for number, size in enumerate(memory_mb):
            self.start_seed_host('mix%d' % number, memory_mb=size)
        self.manager = self.scheduler.manager.host_manager
        names = {type(weigher).__name__ for weigher in self.manager.weighers}
        self.assertLessEqual(
            {'RAMWeigher', 'DiskWeigher', 'CPUWeigher', 'PriorityWeighter',
             'ServerGroupSoftAffinityWeigher',
             'ServerGroupSoftAntiAffinityWeigher'}, names)

    def _set_multiplier(self, value):
        """Set the option, and create the weighers again, which read it."""
        self.flags(priority_weight_multiplier=value, group='nova_prio')
        handler = self.manager.weight_handler
        self.manager.weighers = [
            weigher() for weigher in handler.get_matching_classes(
                CONF.filter_scheduler.weight_classes)]

    def _boot(self, flavor, hints=(), **kwargs):
        """Boot a server; returns the digit of its host."""
        server = self.api.post_server({
            'server': self._build_server(
                flavor_id=flavor, networks='none', **kwargs),
            'os:scheduler_hints': dict(hints)})
        self._wait_for_state_change(server, 'ACTIVE')
        host = self.host_of(server)
        # Until the update, Nova counts the build against the host.
        self.update_host(host)
        return host[-1]

    def _boot_group(self, flavor, policy):
        group = self.api.post_server_groups({'name': 'g', 'policy': policy})
        hints = {'group': group['id']}
        return self._boot(flavor, hints) + self._boot(flavor, hints)

    def test_instances_spread_or_stack_with_negative_multiplier(self):
        """The RAM weigher alone would place each on the first host."""
        self._start_hosts(16384, 15360)
        for flavor in (self.plain, self.high, self.low):
            self.assertEqual('01', self._boot(flavor) + self._boot(flavor))
        small = self.flavor(1, **{'hw:cpu_priority': 'low'})
        self.assertEqual('00', self._boot_group(small, 'soft-affinity'))
        self._set_multiplier(-1.0)
        self.assertEqual('01', self._boot_group(small, 'soft-anti-affinity'))
        self._boot(self.low, host='mix1')
        self.assertEqual('1', self._boot(small))

    def _weights(self, server):
        """Return the sums of all weighers for a request, host by host."""
        ctxt = context.get_admin_context()
        spec = objects.RequestSpec.get_by_instance_uuid(ctxt, server['id'])
        weighed = self.manager.get_weighed_hosts(
            list(self.manager.get_host_states_by_uuids(
                ctxt, list(self.compute_rp_uuids.values()), spec)), spec)
        weights = {each.obj.host: each.weight for each in weighed}
        return [weights[host] for host in ('mix0', 'mix1', 'mix2')]

    def _assert_adds(self, *wanted):
        """Check the weight of the PriorityWeighter per server and host."""
        for server, without, expected in zip(
                self.servers, self.without, wanted):
            self.assertEqual(expected, [
                round(weight - other, 2) for weight, other in zip(
                    self._weights(server), without)])

    def test_weight_depends_on_class_multiplier_and_aggregate(self):
        self._start_hosts(16384, 15360, 14336)
        self.servers = [
            self.boot(self.high, host='mix2'),
            self.boot(self.flavor(8, **{'hw:cpu_priority': 'low'}),
                      host='mix1'),
            self.boot(self.plain, host='mix2')]
        all_weighers = self.manager.weighers
        self.manager.weighers = [
            weigher for weigher in all_weighers
            if type(weigher).__name__ != 'PriorityWeighter']
        self.without = [self._weights(server) for server in self.servers]
        self.manager.weighers = all_weighers
        # 8 CPUs in the high row, 16 in the low row, and 8 in Nova's count.
        self._assert_adds([1, 1, .5], [1, .5, .75], [1, 0, 0])
        self._set_multiplier(0.0)
        self._assert_adds(*3 * [[0, 0, 0]])
        self._set_multiplier(-2.0)
        self._assert_adds([-2, -2, -1], [-2, -1, -1.5], [-2, 0, 0])
        for host, multiplier in (
                ('mix0', '-1'), ('mix1', '3'), ('mix2', 'much')):
            self._join_aggregate(
                host, {'priority_weight_multiplier': multiplier})
        self._assert_adds([-1, 3, -1], [-1, 1.5, -1.5], [-1, 0, 0])
        with self.record('mix0') as node:
            node.stats = {**node.stats, host_report.STATS_KEY: '?'}
            node.save()
        self._assert_adds([0, 3, -1], [0, 2, -2], [-1, 0, 0])
