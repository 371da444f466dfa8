# SPDX-License-Identifier: Apache-2.0

"""Operations that move a server or resize it."""

import contextlib

from nova.tests.functional.api import client

from nova_prio_scenario import migrations
from tests.fuzz import base
from tests.fuzz import faults
from tests.fuzz import model
from tests.fuzz import requests

REQUESTS = base.REQUESTS


class MoveOperations(base.Operations):
    """Resize, cold migration and live migration."""

    def resize(self, name, flavor, where):
        """Resize a server.

        :param where: ANY, or elsewhere for another host
        """
        server = self._servers[name]
        self._cloud.flags(allow_resize_to_same_host=where == base.ANY)
        request = requests.after_resize(server.request, flavor)
        hosts = [host for host in self._model.up
                 if where == base.ANY or host != server.host]
        fits = request and self._model.fitting_hosts(request, hosts)
        self._move(server, request, fits, resize={
            'flavorRef': self._cloud.flavor_of(flavor)})

    def migrate(self, name, host):
        """Migrate a server cold."""
        server = self._servers[name]
        self._cloud.flags(allow_resize_to_same_host=False)
        self._move(server, server.request, self._others_fit(server, host),
                   migrate=self._host_body(host))

    def _move(self, server, request, fits, **action):
        before = server.status
        shown, error = self._cloud.act(server, **action)
        if shown['status'] == 'VERIFY_RESIZE':
            server.status = 'VERIFY_RESIZE'
            server.usages.append(
                model.Usage(shown['OS-EXT-SRV-ATTR:host'], request))
            server.before = before
        self._expect(shown, 'VERIFY_RESIZE' if fits else before, error)

    def fail_migrate(self, name, host):
        """Migrate a server cold, from a host that cannot move its disks."""
        server = self._servers[name]
        self._cloud.flags(allow_resize_to_same_host=False)
        with self._cloud.no_disk_moves():
            shown, error = self._cloud.act(
                server, migrate=self._host_body(host))
        self._expect(shown, server.status, error)
        self._recount_destination(server)

    def confirm(self, name):
        """Confirm a resize or migration."""
        self._end(name, 0, confirmResize=None)

    def revert(self, name):
        """Revert a resize or migration."""
        self._end(name, 1, revertResize=None)

    def _end(self, name, left, **action):
        """End a resize or migration; the server leaves one of two hosts."""
        server = self._servers[name]
        shown, error = self._cloud.act(server, 'VERIFY_RESIZE', **action)
        self._expect(shown, server.before, error)
        server.status = server.before
        del server.usages[left]
        server.request = server.usages[0].request

    def live_migrate(self, name, host):
        """Migrate a server live."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        before = server.host
        shown, error = self._migrate_live(server, host)
        self._record_host(server, shown)
        self._expect(shown, 'ACTIVE', error)
        if bool(fits) != (server.host != before):
            raise base.UnexpectedOutcome('fits %s: %s' % (fits, error))
        self._recount_unclaimed(server)

    def _recount_unclaimed(self, server):
        """Recount the destination if nothing was claimed there, as in Nova.

        Nova claims for an ordinary instance without a NUMA topology on hosts
        with cpu_priority_mix_enable only.
        """
        request = REQUESTS[server.request]
        if not (request.priority or request.cells or
                self._model.hosts[server.host].mix):
            self._recount_destination(server)

    def _migrate_live(self, server, host):
        return self._cloud.act(server, **_live(host))

    def _record_host(self, server, shown):
        host = shown['OS-EXT-SRV-ATTR:host']
        if host != server.host:
            server.usages[-1] = model.Usage(host, server.request)

    def fail_live_migrate(self, name, host, failure):
        """Migrate a server live, which fails in a check or in libvirt."""
        server = self._servers[name]
        if failure in ('job', 'libvirt'):
            self._cloud.fail_next_migration(
                server.uuid, raises=failure == 'libvirt')
            failing = contextlib.nullcontext()
        else:
            failing = self._cloud.failing(*faults.FAILURES[failure])
        with failing:
            self._migrate_live(server, host)
        self._expect_on_source(server, call_failed=failure == 'libvirt')

    def _expect_on_source(self, server, call_failed=False):
        """Expect a server on its source host, after a failed migration.

        The claim of an ordinary instance on a host without
        cpu_priority_mix_enable stays until the next recount, as in Nova.

        :param call_failed: whether the call of libvirt failed: Nova from
            release 32 on rolls back, and then puts the instance into ERROR
            all the same, so that an operator has to reset its state
        """
        shown = self._cloud.settle(server.uuid)
        if call_failed and shown['status'] == 'ERROR':
            shown, _ = self._cloud.act(
                server, **{'os-resetState': {'state': 'active'}})
        if (shown['status'], shown['OS-EXT-SRV-ATTR:host']) != (
                'ACTIVE', server.host):
            raise base.UnexpectedOutcome(shown)
        if not REQUESTS[server.request].priority:
            self._recount(*(host for host, options
                            in self._model.hosts.items() if not options.mix))

    def abort_running(self, name, host):
        """Abort a live migration that runs."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        with self._cloud.hold_migration(server.uuid) as is_aborted:
            if not self._begin(server, host, 'running', fits):
                return
            self._abort(server)
            self._cloud.wait(is_aborted, 'abort of ' + name)
        self._expect_on_source(server, call_failed=True)

    def abort_queued(self, name, queued, host):
        """Abort a live migration that waits for another one."""
        first, second = self._servers[name], self._servers[queued]
        fits = self._others_fit(first, host)
        with self._cloud.hold_migration(first.uuid):
            if not self._begin(first, host, 'running', fits):
                return
            if self._begin(second, host, 'queued',
                           self._fits_beside(first, second, host)):
                self._abort(second)
                self._expect_on_source(second)
        shown = self._cloud.settle(first.uuid)
        self._record_host(first, shown)
        if first.host != host:
            raise base.UnexpectedOutcome(shown)
        self._recount_unclaimed(first)
        # The destination recounts when the other live migration has ended. If
        # the first one ends between Nova's reads of the instances and of the
        # migrations, this recount misses the server. The next one does not.
        self._cloud.wait_for_watchers()
        self._recount(host)

    def _fits_beside(self, first, second, host):
        """Return whether a server fits beside one that is on its way.

        If both have a NUMA topology, it depends on the cells that the first
        one gets, which the model does not know yet: None, then.
        """
        if REQUESTS[first.request].cells and REQUESTS[second.request].cells:
            return None
        arriving = self._model.simulate_usage(host, first.request)
        return not self._model.refusal(host, second.request, [arriving])

    def _begin(self, server, host, status, fits):
        """Begin a live migration; return whether it has that status now.

        :param fits: whether it must, or None if that is not known
        """
        error = None
        before = migrations.get_newest(self._cloud.api, server.uuid)
        try:
            self._cloud.api.post_server_action(server.uuid, _live(host))
        except client.OpenStackApiException as refused:
            error = str(refused)
        if error is None:
            found = self._cloud.wait_for_migration(
                server.uuid, status, before)
            if found['status'] != status:
                error = found['status']
        if error:
            self._expect_on_source(server)
        if fits is not None and bool(fits) != (error is None):
            raise base.UnexpectedOutcome('fits %s: %s' % (fits, error))
        return error is None

    def _abort(self, server):
        migration = migrations.get_newest(self._cloud.api, server.uuid)
        self._cloud.api.delete_migration(server.uuid, migration['id'])


def _live(host):
    return {'os-migrateLive': {'host': None if host == base.ANY else host,
                               'block_migration': 'auto'}}
