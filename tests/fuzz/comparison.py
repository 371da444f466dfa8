# SPDX-License-Identifier: Apache-2.0

"""Compare a cloud with the model: accounting, Placement and guests."""

import time

from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt import hardware

from tests.fuzz import model

REQUESTS = model.REQUESTS
PARTITIONS = {'high': '/high_prio_machine', 'low': '/low_prio_machine',
              None: None}
#: Seconds in which a cloud settles after an operation. The API does not show
#: when a service has finished its last steps.
SETTLING_SECONDS = 15


def find_differences(cloud, accounting=True):
    """Return the differences that remain after SETTLING_SECONDS.

    :param cloud: the cloud, with its ``model``
    :param accounting: whether to compare the accounting as well
    :returns: list of str
    """
    deadline = time.monotonic() + SETTLING_SECONDS
    while True:
        found = _Comparison(cloud).find(accounting)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


class _Comparison:
    """One comparison of a cloud with its model."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._model = cloud.model
        self._found = []

    def find(self, accounting):
        """Return the differences."""
        self._servers()
        self._guests()
        for host in self._model.hosts:
            self._placement(host)
            if accounting and host in self._model.up:
                self._accounting(host)
        return self._found

    def _compare(self, what, expected, shown):
        if expected != shown:
            self._found.append('%s: expected %s, found %s' % (
                what, expected, shown))

    def _servers(self):
        shown = {server['id']: server for server in self._cloud.all_servers()}
        self._compare(
            'servers', sorted(server.uuid for server
                              in self._model.servers.values()), sorted(shown))
        for server in self._model.servers.values():
            found = shown.get(server.uuid)
            if found:
                self._compare(
                    'server %s' % server.name, (server.status, server.host),
                    (found['status'], found['OS-EXT-SRV-ATTR:host']))

    # Guests

    def _guests(self):
        for host in self._model.hosts:
            expected = {server.uuid: (server, usage)
                        for server, usage in self._model.usages(host)}
            domains = self._cloud.domains(host)
            for uuid, domain in domains.items():
                if uuid in expected:
                    self._guest(host, *expected.pop(uuid), domain)
                elif (host, uuid) not in self._model.orphans:
                    self._found.append(
                        '%s: orphan guest %s' % (
                            host, self._name(uuid)))
            for server, usage in expected.values():
                if usage is server.usages[-1]:
                    self._found.append('%s: no guest of %s' % (
                        host, server.name))

    def _name(self, uuid):
        return next((server.name for server in self._model.servers.values()
                     if server.uuid == uuid), uuid)

    def _guest(self, name, server, usage, domain):
        """Compare one guest; record the pins of a new guest in the model."""
        what = '%s: guest of %s (%s)' % (name, server.name, usage.request)
        host, request = self._model.hosts[name], REQUESTS[usage.request]
        xml = etree.fromstring(domain.XMLDesc(0))
        self._compare(what + ', partition', PARTITIONS[request.priority],
                      xml.findtext('resource/partition'))
        is_running = domain._state == fakelibvirt.VIR_DOMAIN_RUNNING
        # In the fake libvirt, a suspended guest is running.
        if usage is server.usages[-1] and server.status != 'SUSPENDED':
            is_resized = server.status == 'VERIFY_RESIZE'
            self._compare(
                what + ', runs', 'ACTIVE' == (
                    server.before if is_resized else server.status),
                is_running)
        cpus = _cpus_of_vcpus(xml)
        emulator = _emulator(xml)
        pinned = [cpus[vcpu] for vcpu in request.dedicated_vcpus]
        if request.isolates_emulator:
            pinned.append(emulator)
        pins = frozenset().union(*pinned)
        if (len(pins) != len(pinned) or any(len(each) != 1 for each in pinned)
                or not pins <= host.dedicated):
            self._found.append('%s, pins: %s' % (what, pinned))
        shared = self._floating(what, host, request, cpus)
        if usage.pins is None:
            usage.pins, usage.shared = pins, shared
        self._compare(what + ', pins', sorted(usage.pins), sorted(pins))
        self._compare(what + ', NUMA cells', usage.shared, shared)
        if request.is_low and not (emulator and emulator <= host.shared):
            self._found.append('%s, emulator threads: %s' % (what, emulator))

    def _floating(self, what, host, request, cpus):
        """Compare the CPUs of the shared vCPUs.

        :returns: dict, NUMA cell -> number of shared vCPUs
        """
        allowed = host.floating(request)
        shared = {}
        for vcpu, found in enumerate(cpus):
            if vcpu in request.dedicated_vcpus:
                continue
            if not request.cells:
                self._compare('%s, vCPU %d' % (what, vcpu),
                              sorted(allowed), sorted(found))
                continue
            cell = next((number for number, cpus in enumerate(host.cells)
                         if found == allowed & cpus), None)
            if cell is None:
                self._found.append('%s, vCPU %d: %s' % (what, vcpu, found))
            else:
                shared[cell] = shared.get(cell, 0) + 1
        return shared

    # Placement

    def _placement(self, host):
        inventories = self._cloud.resources(host)
        for name, expected in self._model.inventories(host).items():
            self._compare(
                '%s: inventory of %s' % (host, name), expected,
                {key: inventories.get(name, {}).get(key) for key in expected})
        shown = self._cloud.resources(host, 'allocations')
        expected = self._model.allocations(host, self._cloud.migration_of)
        for consumer in sorted({*shown, *expected}):
            self._compare(
                '%s: allocation of %s' % (host, self._name(consumer)),
                expected.get(consumer),
                shown[consumer]['resources'] if consumer in shown else None)

    # Accounting

    def _accounting(self, host):
        usages = self._model.counted_usages(host)
        if any(usage.pins is None for usage in usages):
            self._found.append('%s: a guest was never seen' % host)
            return
        for where, node in (('record', self._cloud.compute_node(host)),
                            ('tracker', self._cloud.tracked_node(host))):
            self._node('%s, %s' % (host, where), host, node)
        self._report(host)
        pins = self._model.pins(host)
        self._compare('%s: pins' % host, sorted(set(pins)), sorted(pins))

    def _node(self, what, host, node):
        self._compare(
            what + ', vcpus_used', self._model.vcpus(host), node.vcpus_used)
        self._compare(
            what + ', memory_mb_used',
            self._model.memory_mb(host) + model.RESERVED_MEMORY_MB,
            node.memory_mb_used)
        self._compare(
            what + ', local_gb_used', len(self._model.counted_usages(host)),
            node.local_gb_used)
        cells = self._cloud.cells(node)
        self._compare(
            what + ', pinned', sorted(self._model.pins(host)),
            sorted(cpu for cell in cells for cpu in cell.pinned_cpus))
        self._compare(
            what + ', cpu_usage', self._model.shared_by_cell(host),
            {cell.id: cell.cpu_usage for cell in cells if cell.cpu_usage})

    def _report(self, host):
        report = self._cloud.report(host)
        for row, used, sellable in zip(
                model.Rows._fields, self._model.used(host),
                self._model.hosts[host].sellable()):
            self._compare('%s: %s row used' % (host, row), used,
                          getattr(report.used, row))
            self._compare('%s: %s row sellable' % (host, row), sellable,
                          getattr(report.sellable, row))
        self._compare('%s: low by cell' % host,
                      self._model.shared_by_cell(host, low_only=True),
                      report.low_by_cell)
        self._compare('%s: blocked CPUs' % host, frozenset(), report.blocked)
        self._compare('%s: partitions' % host, '', report.partition_problem)
        self._compare('%s: report of the tracker' % host, report,
                      self._cloud.tracked_report(host))


def _cpus_of_vcpus(xml):
    """Return the CPUs where each vCPU may run, a list of frozensets."""
    pins = {pin.get('vcpu'): pin.get('cpuset')
            for pin in xml.iterfind('cputune/vcpupin')}
    default = xml.find('vcpu').get('cpuset')
    return [_numbers(pins.get(str(vcpu), default))
            for vcpu in range(int(xml.findtext('vcpu')))]


def _emulator(xml):
    pin = xml.find('cputune/emulatorpin')
    return frozenset() if pin is None else _numbers(pin.get('cpuset'))


def _numbers(text):
    return frozenset(hardware.parse_cpu_spec(text) if text else ())
