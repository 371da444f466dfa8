# SPDX-License-Identifier: Apache-2.0

"""The start lines of the services, as the page on installation quotes them."""

import fixtures

from nova_prio.api import validators
from tests.functional import base
from tests import pages


class StartLines(base.FunctionalTest):

    def setUp(self):
        # nova-api writes its line while the test environment is created.
        self.log = self.useFixture(fixtures.FakeLogger('nova_prio'))
        super().setUp()

    def _said(self):
        return pages.start_lines(self.log.output)

    def test_each_service_writes_the_quoted_start_line_once(self):
        self.start_seed_host()
        self.assertEqual(
            sorted(set(pages.start_lines(pages.START_LINES.read_text()))),
            sorted(self._said()))

    def test_start_line_of_host_without_sets_and_ratio(self):
        self.start_host('mix1')
        self.assertEqual(
            'nova_prio RELEASE: dedicated CPUs none, shared CPUs 0-11, '
            'cpu_allocation_ratio as Placement has it, '
            'cpu_priority_mix_enable false, low_emulator_set not set, '
            'small pages not limited',
            self._said()[-1])

    def test_start_line_of_host_with_low_emulator_set(self):
        self.start_seed_host(dedicated='0-6', low_emulator_set='7')
        self.assertIn(', low_emulator_set 7, ', self._said()[-1])

    def test_disabled_api_writes_no_start_line(self):
        said = self._said()
        self.flags(enabled=False, group='nova_prio')
        self.assertEqual([], validators.register())
        self.assertEqual(said, self._said())
