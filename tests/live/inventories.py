# SPDX-License-Identifier: Apache-2.0


"""The invariants of the inventories in Placement: see invariants.py."""

import fractions


def wrong_inventories(snapshot):
    """The inventories and traits of each host are as expected."""
    providers = {provider.name: provider for provider in snapshot.providers}
    for host in snapshot.hosts:
        if host.name not in providers:
            yield '%s is not in Placement.' % host.name
            continue
        provider = providers[host.name]
        found = {
            name: tuple(inventory[key] for key in (
                'total', 'reserved', 'allocation_ratio'))
            for name, inventory in provider.inventories.items()
            if name in ('VCPU', 'PCPU')}
        wanted = {'VCPU': _expected_vcpu(host),
                  'PCPU': (len(host.dedicated), 0, 1)}
        if found != wanted:
            yield '%s offers %s, it may sell %s.' % (
                host.name, found, wanted)
        if provider.inventories['VCPU']['max_unit'] < len(host.floating):
            yield '%s refuses guests of %d vCPUs, it has as many CPUs.' % (
                host.name, len(host.floating))
        if host.mix and provider.inventories['MEMORY_MB'][
                'allocation_ratio'] > 1:
            yield '%s sells memory that it does not have.' % host.name
        traits = {'CUSTOM_CPU_PRIORITY'}
        if host.mix:
            traits.add('CUSTOM_CPU_PRIORITY_MIX')
        found_traits = {trait for trait in provider.traits
                        if trait.startswith('CUSTOM_CPU_PRIORITY')}
        if found_traits != traits:
            yield '%s has the traits %s, not %s.' % (
                host.name, sorted(found_traits), sorted(traits))


def _expected_vcpu(host):
    """Return the expected (total, reserved, allocation ratio) of VCPU."""
    total = len(host.floating)
    reserved = max(
        (units for units in range(total) if
         int((total - units) * host.ratio) >= host.sellable['low']),
        default=0)
    return total, reserved, float(host.ratio)


def overfull_providers(snapshot):
    """No provider has more allocations than capacity."""
    for provider in snapshot.providers:
        for name, units in provider.usages.items():
            inventory = provider.inventories[name]
            capacity = int(
                (inventory['total'] - inventory['reserved']) *
                fractions.Fraction(str(inventory['allocation_ratio'])))
            if units > capacity:
                yield '%d %s of %s are allocated, it has %d.' % (
                    units, name, provider.name, capacity)
