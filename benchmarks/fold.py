# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the fold adds to the time of one create in nova-api.

Both sides run in turn in one process, on the same objects: Nova's API.create
as it is, and as this package wraps it. What API.create calls to validate and
to store the instance is left out, since it would drown the difference.
Writes microseconds per call, medians over the repeats, as JSON.
"""

import argparse
import json
import statistics
import timeit
from unittest import mock

from nova.compute import api
import nova.conf
from nova import config
from nova import context
from nova import objects

from nova_prio.api import validators

CASES = {
    'plain': ({}, None),
    'flavor': ({'hw:cpu_priority': 'high'}, None),
    'hint': ({}, {'priority': 'low'}),
}


def microseconds(call, number, repeats):
    """Return the times of one call, in microseconds, one of each repeat."""
    return [seconds / number * 1e6
            for seconds in timeit.repeat(call, number=number, repeat=repeats)]


def measure(number, repeats):
    """Return dict, case -> microseconds of stock, ours, and the difference."""
    compute_api = api.API()
    admin = context.RequestContext(
        'user', 'project', is_admin=True, roles=['admin', 'member'])
    ours, stock = api.API.create, api.API.create.__wrapped__
    found = {}
    for case, (extra_specs, hints) in CASES.items():
        flavor = objects.Flavor(
            id=1, flavorid='f', name='f', vcpus=4, memory_mb=256, root_gb=1,
            ephemeral_gb=0, swap=0, disabled=False, is_public=True,
            extra_specs=extra_specs)
        times = {stock: [], ours: []}
        for _ in range(repeats):
            for create, seen in times.items():
                seen += microseconds(
                    lambda: create(compute_api, admin, flavor, 'image',
                                   scheduler_hints=hints), number, 1)
        medians = {name: statistics.median(times[create])
                   for name, create in (('stock', stock), ('ours', ours))}
        found[case] = {**medians,
                       'added': medians['ours'] - medians['stock']}
    return found


def main():
    """Measure and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--output', default='bench-fold.json')
    parser.add_argument('--number', type=int, default=200)
    parser.add_argument('--repeats', type=int, default=15)
    arguments = parser.parse_args()
    config.parse_args(['bench', '--config-file', '/dev/null'])
    objects.register_all()
    validators.register()
    nova.conf.CONF.set_override('enabled', True, group='nova_prio')
    with mock.patch.object(api.API, '_create_instance',
                           return_value=([], 'r')):
        found = {'fold.microseconds': measure(
            arguments.number, arguments.repeats)}
    with open(arguments.output, 'w') as output:
        json.dump(found, output, indent=2, sort_keys=True)
    print(json.dumps(found, indent=2, sort_keys=True))


if __name__ == '__main__':
    main()
