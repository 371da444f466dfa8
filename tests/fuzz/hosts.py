# SPDX-License-Identifier: Apache-2.0

"""Operations on hosts, and evacuation."""

from tests.fuzz import base
from tests.fuzz import model


class HostOperations(base.Operations):
    """Operations on hosts, and evacuations."""

    def host_down(self, host):
        """Let a host fail, and force its service down."""
        self._cloud.computes[host].stop()
        self._cloud.force_down(host, True)
        self._model.down.add(host)

    def host_up(self, host):
        """Start a host that was down, with the guests that it had."""
        self._cloud.restart_compute_service(host)
        self._cloud.force_down(host, False)
        self._model.down.remove(host)
        for server in self._servers.values():
            server.usages = [usage for usage in server.usages
                             if not usage.is_evacuated]
        if self._model.orphans:
            # The guests of deleted instances block their CPUs until a periodic
            # task of Nova removes the guests. Two looks then end their leases.
            self._cloud.remove_orphan_guests(host)
            self._cloud.update_host(host)
            self._cloud.update_host(host)
            self._model.orphans.clear()
        for server in self._servers.values():
            if server.is_power_unknown and server.host == host:
                # Otherwise Nova would read the power state of the guest only
                # minutes later.
                self._change(server.name, 'ACTIVE', reboot={'type': 'HARD'})
                server.is_power_unknown = False

    def evacuate(self, name, host):
        """Evacuate a server from its host, which is down."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        shown, error = self._cloud.act(
            server, evacuate=self._host_body(host) or {})
        arrived = shown['OS-EXT-SRV-ATTR:host']
        if arrived != server.host:
            server.usages[0].is_evacuated = True
            server.usages.append(model.Usage(arrived, server.request))
            server.status = 'SHUTOFF'
            server.is_power_unknown = False
        self._expect_evacuated(server, shown, bool(fits), error)

    def fail_evacuate(self, name):
        """Evacuate a server that fails to start on other hosts."""
        server = self._servers[name]
        with self._cloud.no_guest_starts():
            shown, error = self._cloud.act(server, evacuate={})
        self._expect_evacuated(server, shown, False, error)
        server.is_power_unknown = True
        self._recount_destination(server)

    def _expect_evacuated(self, server, shown, is_evacuated, error):
        """Expect that a server was evacuated, or is in ERROR."""
        if shown['status'] == 'ERROR':
            self._cloud.act(server, **{'os-resetState': {'state': 'active'}})
        self._expect(shown, 'SHUTOFF' if is_evacuated else 'ERROR', error)

    def restart(self, host):
        """Restart the nova-compute of a host."""
        self._cloud.restart_compute_service(host)

    def recount(self, host):
        """Run the periodic task of a host, which must change nothing."""
        before = self._cloud.report(host)
        self._cloud.update_host(host)
        after = self._cloud.report(host)
        if before != after:
            raise base.UnexpectedOutcome('%s became %s' % (before, after))
