# SPDX-License-Identifier: Apache-2.0


"""The invariants of a cloud: functions of a state.Snapshot.

Each function yields a sentence for each violation. The invariants in INSTANT
must hold at any time and need only the active guests of hosts. Those in
SETTLED must hold when no operation runs, and need the whole snapshot.
"""

import collections

from nova.virt import hardware

from tests.live import inventories
from tests.live import state


def cpus_pinned_twice(snapshot):
    """No CPU has two owners."""
    for host in snapshot.hosts:
        owners = collections.defaultdict(list)
        for domain in host.domains:
            for cpu in host.pins(domain):
                owners[cpu].append(domain.name)
        for cpu, names in sorted(owners.items()):
            if len(names) > 1:
                yield 'CPU %d of %s is pinned %d times, by %s.' % (
                    cpu, host.name, len(names), ' and '.join(sorted(names)))


def classes_oversold_by_guests(snapshot):
    """Active guests use no more CPUs of a row than the host may sell."""
    for host in snapshot.hosts:
        active = [domain for domain in host.domains if domain.is_active]
        yield from _oversold(host, 'active guests', [
            (len(host.pins(domain)), host.shared_vcpus(domain), domain.is_low)
            for domain in active])


def _oversold(host, subject, users):
    """Yield the rows of a host of which more is used than it may sell.

    :param subject: servers or guests, for the sentence
    :param users: list of (number of pinned CPUs, number of shared vCPUs,
        whether low priority), for each user
    """
    used = {'high': sum(pins for pins, _, _ in users),
            'low': sum(shared for _, shared, _ in users),
            'ordinary': sum(shared for _, shared, is_low in users
                            if not is_low)}
    for row, units in used.items():
        if units > host.sellable[row]:
            yield '%s of %s have %d CPUs of the %s class, sellable are %d.' % (
                subject.capitalize(), host.name, units, row,
                host.sellable[row])


def guests_on_wrong_cpus(snapshot):
    """Guests run on the CPUs of their class."""
    for host in snapshot.hosts:
        for domain in host.domains:
            yield from _wrong_cpus(host, domain)


def _wrong_cpus(host, domain):
    """Yield the vCPUs and emulator threads of a guest on wrong CPUs."""
    for number, cpus in enumerate(domain.vcpus):
        wanted = host.floating if domain.is_low else host.shared
        is_pinned = len(cpus) == 1 and cpus <= host.dedicated
        if cpus != wanted and (domain.is_low or not is_pinned):
            yield 'vCPU %d of %s on %s runs on %s, not on %s%s.' % (
                number, domain.name, host.name, _text(cpus), _text(wanted),
                '' if domain.is_low else ' or one of ' + _text(
                    host.dedicated))
    if domain.partition == state.HIGH and not host.pins(domain):
        yield '%s on %s is in %s and has no CPU of its own.' % (
            domain.name, host.name, state.HIGH)
    allowed = host.shared.union(() if domain.is_low else host.pins(domain))
    if not domain.threads or not domain.threads <= allowed:
        yield 'Emulator threads of %s on %s run on %s, not within %s.' % (
            domain.name, host.name, _text(domain.threads),
            _text(allowed))


def _text(cpus):
    return 'CPUs ' + hardware.format_cpu_spec(cpus) if cpus else 'any CPU'


def running_operations(snapshot):
    """Yield the operations that must end before SETTLED must hold."""
    for server in snapshot.servers:
        if not server.is_at_rest:
            yield '%s is %s with task %s.' % (
                server.title, server.status, server.task_state)
    for migration in snapshot.migrations:
        if migration.status not in state.AT_REST:
            yield 'The migration %s of server %s is %s.' % (
                migration.uuid, migration.server, migration.status)
    for hypervisor in snapshot.hypervisors:
        if not hypervisor.is_up:
            yield 'The nova-compute of %s is down.' % hypervisor.name


def guests_of_servers(snapshot):
    """Each server has exactly the guest of its status, on its host."""
    active = collections.defaultdict(list)
    for host in snapshot.hosts:
        for domain in host.domains:
            if domain.is_active:
                active[domain.uuid].append(host.name)
    for server in snapshot.servers:
        hosts = active[server.uuid]
        if server.status == 'ERROR':
            allowed = [[], [server.host]]
        else:
            allowed = [[server.host] if server.needs_guest else []]
        if hosts not in allowed:
            yield '%s is %s on %s, but has active guests on %s.' % (
                server.title, server.status, server.host,
                ' and '.join(hosts) or 'no host')


def guests_without_server(snapshot):
    """No host has the definition of a guest without a server on this host.

    The source host keeps the guest until a resize is confirmed.
    """
    expected = {(server.uuid, server.host) for server in snapshot.servers
                if server.needs_host}
    expected |= {(migration.server, migration.source)
                 for migration in _unconfirmed(snapshot)}
    for host in snapshot.hosts:
        for domain in host.domains:
            if (domain.uuid, host.name) not in expected:
                yield 'The guest %s (%s) on %s has no server on this host.' % (
                    domain.name, domain.uuid, host.name)


def _unconfirmed(snapshot):
    """Return the migrations that keep resources at the source for a revert."""
    resized = {server.uuid for server in snapshot.servers
               if server.status == 'VERIFY_RESIZE'}
    return [migration for migration in snapshot.migrations
            if migration.status == state.FINISHED and
            migration.server in resized]


def guests_that_differ_from_servers(snapshot):
    """Active guests have the vCPUs, pins and partition of their servers."""
    servers = {(server.uuid, server.host): server
               for server in snapshot.servers}
    for host in snapshot.hosts:
        for domain in host.domains:
            server = servers.get((domain.uuid, host.name))
            if server is None or not domain.is_active:
                continue
            wanted = (state.PARTITIONS[server.priority], server.pins,
                      server.shared_vcpus)
            found = (domain.partition, len(host.pins(domain)),
                     host.shared_vcpus(domain))
            if found != wanted:
                yield ('The guest %s on %s is in %s with %d pinned CPUs and '
                       '%d shared vCPUs; its server needs %s, %d and %d.' % (
                           domain.name, host.name, *found, *wanted))


def classes_oversold_by_servers(snapshot):
    """Servers, also stopped ones, use no more CPUs than the host may sell."""
    users = _users(snapshot)
    for host in snapshot.hosts:
        yield from _oversold(host, 'servers', [
            (server.pins, server.shared_vcpus, server.priority == 'low')
            for name, server in users if name == host.name])


def _users(snapshot):
    """Return pairs: the name of a host, and a server that uses the host.

    The source host of an unconfirmed resize is left out: the APIs do not show
    the old flavor.
    """
    servers = {server.uuid: server for server in snapshot.servers}
    return [(server.host, server) for server in snapshot.servers
            if server.needs_host] + [
        (migration.source, servers[migration.server])
        for migration in _unconfirmed(snapshot) if migration.keeps_flavor]


def servers_without_host(snapshot):
    """A server without a host is offloaded, or in ERROR with a fault."""
    for server in snapshot.servers:
        if not server.host and server.status not in (
                'ERROR', 'SHELVED_OFFLOADED'):
            yield '%s is %s and has no host.' % (server.title, server.status)
        elif not server.host and server.status == 'ERROR' and (
                not server.has_fault):
            yield '%s is in ERROR without a fault.' % server.title


def servers_with_wrong_priority(snapshot):
    """A server has the priority of its flavor or of its hint.

    After a resize to a flavor with the priority of the hint, the flavor
    decides, and the next resize may end the priority. A reverted resize does
    not change this.
    """
    resized = {migration.server for migration in snapshot.migrations
               if not migration.keeps_flavor and
               migration.status != state.REVERTED}
    for server in snapshot.servers:
        if server.offered is None:
            continue
        requested = server.offered.get('hw:cpu_priority')
        hint = server.hints.get('priority')
        allowed = {requested or hint}
        if server.uuid in resized:
            allowed.add(requested)
        if server.priority not in allowed:
            yield '%s has the priority %s; its flavor asks for %s, its hint ' \
                'for %s.' % (server.title, server.priority, requested, hint)
        elif server.needs != server.needs_with(server.priority):
            yield '%s has %s; its flavor asks for %s with the priority %s.' % (
                server.title, _resources(server.needs),
                _resources(server.needs_with(server.priority)),
                server.priority)


def servers_on_ordinary_hosts(snapshot):
    """Servers with a priority are on priority hosts."""
    for server in snapshot.servers:
        if server.needs_host and server.priority and (
                server.host not in snapshot.priority_hosts):
            yield '%s has %s priority and is on %s, no priority host.' % (
                server.title, server.priority, server.host)


def allocations(snapshot):
    """Each consumer has its expected allocations, and no other."""
    wanted = {(server.uuid, server.host): (server.title, server.needs)
              for server in snapshot.servers if server.needs_host}
    servers = {server.uuid: server for server in snapshot.servers}
    for migration in _unconfirmed(snapshot):
        server = servers[migration.server]
        wanted[migration.uuid, migration.source] = (
            'the migration %s of %s' % (migration.uuid, server.title),
            # None: the APIs do not show the old flavor.
            server.needs if migration.keeps_flavor else None)
    found = {(consumer, provider.name): resources
             for provider in snapshot.providers
             for consumer, resources in provider.allocations.items()}
    for consumer, host in sorted(set(wanted) | set(found)):
        title, needs = wanted.get((consumer, host), (
            servers[consumer].title if consumer in servers
            else 'consumer ' + consumer, {}))
        held = found.get((consumer, host), {})
        is_right = bool(held) if needs is None else held == needs
        if not is_right:
            yield 'On %s, %s holds %s and needs %s.' % (
                host, title, _resources(held),
                'something' if needs is None else _resources(needs))


def _resources(amounts):
    return ', '.join('%s %d' % pair for pair in
                     sorted(amounts.items())) or 'nothing'


def hypervisors(snapshot):
    """Each nova-compute counts the usage of the servers on its host.

    If the old flavor of a resize is unknown, the host is skipped.
    """
    providers = {provider.name: provider for provider in snapshot.providers}
    users = _users(snapshot)
    unknown = {migration.source for migration in _unconfirmed(snapshot)
               if not migration.keeps_flavor}
    for hypervisor in snapshot.hypervisors:
        if hypervisor.name in unknown or hypervisor.name not in providers:
            continue
        own = [server for host, server in users if host == hypervisor.name]
        reserved = {name: inventory['reserved'] for name, inventory in
                    providers[hypervisor.name].inventories.items()}
        wanted = (sum(server.vcpus for server in own),
                  sum(server.memory_mb for server in own) +
                  reserved['MEMORY_MB'],
                  sum(server.disk_gb for server in own) +
                  reserved['DISK_GB'])
        found = hypervisor.vcpus, hypervisor.memory_mb, hypervisor.disk_gb
        if found != wanted:
            yield ('The nova-compute of %s counts %d vCPUs, %d MB and %d GB; '
                   'its servers have %d, %d and %d.' % (
                       hypervisor.name, *found, *wanted))


INSTANT = (cpus_pinned_twice, classes_oversold_by_guests, guests_on_wrong_cpus)
SETTLED = INSTANT + (
    guests_of_servers, guests_without_server, guests_that_differ_from_servers,
    classes_oversold_by_servers, servers_without_host,
    servers_with_wrong_priority, servers_on_ordinary_hosts, allocations,
    inventories.wrong_inventories, inventories.overfull_providers, hypervisors)


def violations(snapshot, rules=SETTLED):
    """Return all violations of rules, a list of sentences."""
    return [sentence for rule in rules for sentence in rule(snapshot)]
