# SPDX-License-Identifier: Apache-2.0

"""Every combination of flavor, image and hint, compared with an oracle.

The oracle shares no code with the package.
"""

import itertools

import fixtures
from nova.api.openstack.compute import servers
from nova.compute import api
from nova import context
from nova import exception
from nova import objects
from nova.virt import hardware

from nova_prio.api import validators
from tests.functional import base

FLAVOR_POLICIES = (None, 'shared', 'dedicated', 'mixed')
IMAGE_POLICIES = (None, 'shared', 'dedicated', 'mixed')
EXTRA_SPECS = (None, 'high', 'low', 'urgent')
HINTS = (None, 'high', 'low', 'urgent', ['high'], ['high', 'low'], 7)
RESOURCES = (
    {}, {'resources:VCPU': '4'}, {'resources:VCPU': '3'},
    {'resources:PCPU': '4'}, {'resources:PCPU': '0'},
    {'resources1:PCPU': '4'})
OTHERS = (
    {}, {'hw:cpu_realtime': 'true', 'hw:cpu_realtime_mask': '^0'},
    {'hw:emulator_threads_policy': 'isolate'})


def oracle(policy, image, spec, hint, resources, other):
    """Return 400, or the folded (priority, CPU policy).

    Return None if the combination has no priority, so that Nova decides.
    """
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    if spec is None and hint is None:
        return None
    if spec is not None and hint is not None:
        return 400
    asked = spec if hint is None else hint
    if asked == 'high':
        if policy == 'shared' or image == 'shared':
            return 400
        if resources.get('resources:PCPU') == '0':
            return 400
        if policy is None and 'resources:VCPU' in resources:
            return 400
        if policy is None and resources:
            return 'high', None
        if policy == 'mixed' and image == 'dedicated':
            return 400
        return 'high', policy or 'dedicated'
    if asked == 'low':
        if policy in ('dedicated', 'mixed') or image in ('dedicated', 'mixed'):
            return 400
        if 'hw:cpu_realtime' in other or 'hw:emulator_threads_policy' in other:
            return 400
        if 'resources:PCPU' in resources or 'resources1:PCPU' in resources:
            return 400
        if resources.get('resources:VCPU', '4') != '4':
            return 400
        return 'low', 'shared'
    return 400


class _Reached(Exception):
    """Raised after Nova accepted the request, before it places instances."""


class PolicyTable(base.FunctionalTest):
    """Nova's own API.create until it has read the image."""

    def setUp(self):
        super().setUp()
        validators.register()
        self.start_seed_host()
        self.context = context.get_admin_context()
        self.context.project_id = self.context.user_id = 'p'
        self.provisioned = []

        def provision(api_self, context, flavor, *args, **kwargs):
            self.provisioned.append(flavor)
            raise _Reached()

        self.useFixture(fixtures.MonkeyPatch(
            'nova.compute.api.API._provision_instances', provision))

    def _answer(self, policy, image, spec, hint, resources, other):
        extra_specs = {**resources, **other}
        if policy:
            extra_specs['hw:cpu_policy'] = policy
        if policy == 'mixed':
            extra_specs['hw:cpu_dedicated_mask'] = '0-1'
        if spec:
            extra_specs['hw:cpu_priority'] = spec
        flavor = objects.Flavor(
            id=1, flavorid='f', name='f', vcpus=4, memory_mb=256, root_gb=1,
            ephemeral_gb=0, swap=0, disabled=False, extra_specs=extra_specs)
        before = dict(extra_specs)
        hints = {} if hint is None else {'priority': hint}
        try:
            self.api_under_test.create(
                self.context, flavor, image_href=self.images[image],
                min_count=1, max_count=1, display_name='s',
                scheduler_hints=hints,
                requested_networks=objects.NetworkRequestList(
                    objects=[objects.NetworkRequest(network_id='none')]))
        except _Reached:
            specs = self.provisioned.pop().extra_specs
            return specs.get('hw:cpu_priority'), specs.get('hw:cpu_policy')
        except servers.INVALID_FLAVOR_IMAGE_EXCEPTIONS as error:
            return error
        finally:
            self.assertEqual(before, flavor.extra_specs)

    def test_every_combination_equals_the_oracle(self):
        self.images = {
            policy: self.image(**(
                {'hw_cpu_policy': policy} if policy else {}))
            for policy in IMAGE_POLICIES}
        self.api_under_test = api.API()
        counts = {400: 0, 'high': 0, 'low': 0, 'nova': 0}
        for combination in itertools.product(
                FLAVOR_POLICIES, IMAGE_POLICIES, EXTRA_SPECS, HINTS,
                RESOURCES, OTHERS):
            expected = oracle(*combination)
            if expected is None:
                continue
            answer = self._answer(*combination)
            refused = isinstance(answer, exception.NovaException)
            if expected == 400:
                self.assertTrue(refused, (combination, answer))
                self.assertRegex(
                    str(answer),
                    r"^(Extra spec \S+|Scheduler hint 'priority'|"
                    r"Image property hw_cpu_policy)( of the flavor)? is \S.*"
                    r"(allowed|drop the hint).*\.$")
                counts[400] += 1
            elif refused:
                # Nova refuses such a flavor also without this package.
                self.assertTrue(self._nova_refuses(combination, expected),
                                (combination, answer))
                counts['nova'] += 1
            else:
                self.assertEqual(expected, answer, combination)
                counts[expected[0]] += 1
        self.assertTrue(all(counts.values()), counts)

    def _nova_refuses(self, combination, expected):
        policy, image, _, _, resources, other = combination
        extra_specs = {**resources, **other}
        if expected[1]:
            extra_specs['hw:cpu_policy'] = expected[1]
        if expected[1] == 'mixed':
            extra_specs['hw:cpu_dedicated_mask'] = '0-1'
        if expected[0] == 'low':
            extra_specs.pop('resources:VCPU', None)
        try:
            hardware.numa_get_constraints(
                objects.Flavor(vcpus=4, memory_mb=256,
                               extra_specs=extra_specs),
                objects.ImageMeta.from_dict({'properties': {
                    'hw_cpu_policy': image} if image else {}}))
        except servers.INVALID_FLAVOR_IMAGE_EXCEPTIONS:
            return True
        return False
