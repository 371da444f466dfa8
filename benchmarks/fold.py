# SPDX-License-Identifier: Apache-2.0

"""The time that the fold adds to one create in nova-api.

The benchmark calls the create of Nova's compute API, and the create of
PriorityAPI, with the same objects. The calls that validate and store the
instance are mocked, because they would hide the difference.
"""

from unittest import mock

from nova.compute import api
import nova.conf
from nova import context
from nova import objects

from benchmarks import clock
from nova_prio.api import compute_api
from nova_prio.api import validators

#: Extra specs and scheduler hints of the creates.
CASES = {
    'plain': ({}, None),
    'flavor': ({'hw:cpu_priority': 'high'}, None),
    'hint': ({}, {'priority': 'low'}),
}


def measure(number=200, repeats=15):
    """Return the microseconds of one create, and the part of the fold.

    :param number: number of creates in one measurement
    :param repeats: number of measurements
    """
    nova.conf.CONF.set_override('enabled', True, group='nova_prio')
    validators.register()
    ours, stock = api.API(), compute_api.PriorityAPI.__base__()
    admin = context.RequestContext(
        'user', 'project', is_admin=True, roles=['admin', 'member'])
    found = {}
    for case, (extra_specs, hints) in CASES.items():
        flavor = objects.Flavor(
            id=1, flavorid='f', name='f', vcpus=4, memory_mb=256, root_gb=1,
            ephemeral_gb=0, swap=0, disabled=False, is_public=True,
            extra_specs=extra_specs)

        def run(side):
            def creates():
                for _ in range(number):
                    side.create(admin, flavor, 'image',
                                scheduler_hints=hints)
            return clock.seconds(creates)[0]

        with (mock.patch.object(stock, '_create_instance',
                                return_value=([], 'r')),
              mock.patch.object(ours, '_create_instance',
                                return_value=([], 'r'))):
            sides = clock.alternate(
                lambda: run(stock), lambda: run(ours), repeats)
        key = 'fold.' + case
        found.update(clock.figures(key, *sides, number))
        del found[key + '.ratio']
        found[key + '.added_us'] = (
            found[key + '.ours_us'] - found[key + '.stock_us'])
    return found
