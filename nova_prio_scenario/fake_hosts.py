# SPDX-License-Identifier: Apache-2.0

"""What Nova's fake libvirt lacks of a host."""

import fixtures

_HOST = 'nova.virt.libvirt.host.Host.'
_DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'


class FakeHostsFixture(fixtures.Fixture):
    """Lets the drivers of Nova run on hosts that do not exist."""

    def _setUp(self):
        """Replace the functions that would read or change this machine."""
        self.useFixture(fixtures.MockPatch(
            _HOST + 'get_online_cpus', new=_get_online_cpus))
        # Nova runs the command uptime in each update of a host.
        self.useFixture(fixtures.MonkeyPatch(
            _DRIVER + 'get_host_uptime', _get_uptime))
        # /proc/stat shows the CPUs of this machine.
        self.useFixture(fixtures.MockPatch(
            'nova_prio.virt.libvirt.supply_meter.SupplyMeter.measure'))
        # There are no disks to move on a resize or a cold migration.
        self.useFixture(fixtures.MockPatch(
            _DRIVER + 'migrate_disk_and_power_off', return_value='{}'))


def _get_online_cpus(host):
    """Return all CPUs of a nova.virt.libvirt.host.Host."""
    return host.get_available_cpus()


def _get_uptime(driver):
    """Return an uptime, which the scheduler does not read."""
    return 'up'
