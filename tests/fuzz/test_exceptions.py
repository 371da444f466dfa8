# SPDX-License-Identifier: Apache-2.0

"""Differences that the fuzz accepts because stock Nova causes them.

Each test shows one difference on hosts with the stock driver. If a test fails
because Nova was corrected, remove the exception from the fuzz.
"""

from importlib import metadata

from nova_prio_scenario import cloud
from tests.fuzz import cloud as fuzz_cloud
from tests.fuzz import model


class StockCloud(fuzz_cloud.FuzzCloud):
    """The hosts of the fuzz with stock Nova's driver."""

    def start_host(self, name, **kwargs):
        """Start a host with the stock driver."""
        kwargs.update(driver=cloud.STOCK_DRIVER, mix=False)
        return super().start_host(name, **kwargs)

    def create(self):
        """Create an ordinary server on the first host; return its model."""
        shown = self.boot(self.flavor_of('ordinary-1'), host='mix1')
        return model.Server('s', shown['id'], 'ordinary-1')

    def vcpus_used(self, host):
        """Return the vCPUs in use, by the record of the host."""
        return self.compute_node(host).vcpus_used

    def pinned(self, host):
        """Return the pinned CPUs, by the record of the host."""
        return set().union(*(cell.pinned_cpus for cell in self.cells(
            self.compute_node(host))))


def test_cold_migration_that_fails_at_its_source_leaves_its_claim():
    with StockCloud.running() as stock:
        server = stock.create()
        with stock.no_disk_moves():
            shown, _ = stock.act(server, migrate={'host': 'mix2'})
        assert ('ACTIVE', 'mix1') == (
            shown['status'], shown['OS-EXT-SRV-ATTR:host'])
        assert 1 == stock.vcpus_used('mix2')
        stock.update_host('mix2')
        assert 0 == stock.vcpus_used('mix2')


def test_delete_after_cold_migration_leaves_its_claim():
    """Until a recount, the destination tracks the migration alone."""
    with StockCloud.running() as stock:
        server = stock.create()
        stock.act(server, migrate={'host': 'mix2'})
        stock.api.delete_server(server.uuid)
        stock.wait_until_deleted(server.uuid)
        assert 1 == stock.vcpus_used('mix2')
        stock.update_host('mix2')
        assert 0 == stock.vcpus_used('mix2')


def test_delete_after_resize_on_its_host_leaves_its_claim():
    """Nova confirms the resize first, and forgets the instance with it."""
    with StockCloud.running() as stock:
        stock.flags(allow_resize_to_same_host=True)
        server = stock.create()
        for host in 'mix2', 'plain':
            stock.force_down(host, True)
        stock.act(server, resize={'flavorRef': stock.flavor_of('ordinary-2')})
        stock.api.delete_server(server.uuid)
        stock.wait_until_deleted(server.uuid)
        assert 2 == stock.vcpus_used('mix1')
        stock.update_host('mix1')
        assert 0 == stock.vcpus_used('mix1')


def test_evacuation_that_fails_leaves_the_cpus_of_its_claim():
    """MoveClaim.abort drops a copy of the instance without the context."""
    with StockCloud.running() as stock:
        shown = stock.boot(stock.flavor_of('pinned'), host='mix1')
        server = model.Server('s', shown['id'], 'pinned')
        stock.computes['mix1'].stop()
        stock.force_down('mix1', True)
        with stock.no_guest_starts():
            stock.act(server, evacuate={'host': 'mix2'})
        node = stock.compute_node('mix2')
        assert 0 == node.vcpus_used
        assert stock.pinned('mix2')
        stock.update_host('mix2')
        assert not stock.pinned('mix2')


def test_guest_of_an_instance_deleted_on_a_dead_host_runs_on():
    with StockCloud.running() as stock:
        server = stock.create()
        stock.computes['mix1'].stop()
        stock.force_down('mix1', True)
        stock.api.delete_server(server.uuid)
        stock.wait_until_deleted(server.uuid)
        stock.restart_compute_service('mix1')
        stock.force_down('mix1', False)
        assert [server.uuid] == list(stock.domains('mix1'))
        stock.remove_orphan_guests('mix1')
        assert [] == list(stock.domains('mix1'))


def test_failed_call_of_libvirt_ends_in_error_after_the_rollback():
    """Up to Nova 31 the instance is ACTIVE."""
    with StockCloud.running() as stock:
        server = stock.create()
        stock.fail_next_migration(server.uuid, raises=True)
        shown, _ = stock.act(server, **{'os-migrateLive': {
            'host': 'mix2', 'block_migration': 'auto'}})
        release = int(metadata.version('nova').split('.')[0])
        assert ('ERROR' if release >= 32 else 'ACTIVE', 'mix1') == (
            shown['status'], shown['OS-EXT-SRV-ATTR:host'])
