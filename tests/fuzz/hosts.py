# SPDX-License-Identifier: Apache-2.0

"""Operations on hosts, and evacuation."""

from tests.fuzz import base
from tests.fuzz import model


class HostOperations(base.Operations):
    """Hosts that fail and come back, and computes that restart."""

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
            server.holds = [hold for hold in server.holds
                            if not hold.is_left]
        if self._model.orphans:
            # Guests of deleted instances go with Nova's periodic tasks, and
            # until then their CPUs are blocked.
            self._cloud.reap(host)
            self._cloud.update_host(host)
            self._model.orphans.clear()
        for server in self._servers.values():
            if server.is_power_unknown and server.host == host:
                # Otherwise Nova would learn the power state of the guest some
                # minutes later.
                self._change(server.name, 'ACTIVE', reboot={'type': 'HARD'})
                server.is_power_unknown = False

    def evacuate(self, name, host):
        """Build a server anew elsewhere, since its host is down."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        shown, error = self._cloud.act(
            server, evacuate=self._requested(host) or {})
        arrived = shown['OS-EXT-SRV-ATTR:host']
        if arrived != server.host:
            server.holds[0].is_left = True
            server.holds.append(model.Hold(arrived, server.kind))
            server.status = 'SHUTOFF'
            server.is_power_unknown = False
        self._expect_evacuated(server, shown, bool(fits), error)

    def evacuate_in_vain(self, name):
        """Evacuate a server that libvirt starts nowhere else."""
        server = self._servers[name]
        with self._cloud.no_guest_starts():
            shown, error = self._cloud.act(server, evacuate={})
        self._expect_evacuated(server, shown, False, error)
        server.is_power_unknown = True
        self._recount_destination(server)

    def _expect_evacuated(self, server, shown, is_evacuated, error):
        """Expect that a server has moved, or is in error as Nova puts it."""
        if shown['status'] == 'ERROR':
            self._cloud.act(server, **{'os-resetState': {'state': 'active'}})
        self._expect(shown, 'SHUTOFF' if is_evacuated else 'ERROR', error)

    def restart(self, host):
        """Restart a nova-compute."""
        self._cloud.restart_compute_service(host)

    def recount(self, host):
        """Run the periodic task of a host, which must change nothing."""
        before = self._cloud.report(host).to_stats()
        self._cloud.update_host(host)
        after = self._cloud.report(host).to_stats()
        if before != after:
            raise base.Unexpected('%s became %s' % (before, after))
