# SPDX-License-Identifier: Apache-2.0

"""The page of a scenario, compared with the JSON of the same run."""

import json

import testtools

from nova_prio.admin.page import templates
from nova_prio_scenario import cloud
from nova_prio_scenario import document
from nova_prio_scenario import page
from nova_prio_scenario import player
from tests import html_page

SCENARIO = """
description: "<b>Moves</b>"
hosts:
  - {name: mix-1, %(host)s}
  - {name: mix-2, %(host)s}
flavors:
  - {name: four, vcpus: 4}
steps:
  - create: {name: db, count: 2, flavor: four, hint: high, host: mix-1}
    expect: active
  - migrate: {server: db-1, confirm: false}
    expect: migrated
  - create: {name: late, count: 2, flavor: four, hint: high, host: mix-1}
    expect: refused
  - confirm: {server: db-1}
    expect: confirmed
  - create: {name: batch, flavor: four, hint: low, host: mix-1}
    expect: active
  - delete: {server: db-2}
    expect: deleted
  - host-down: {host: mix-1}
""" % {'host': 'cpus: 12, dedicated: 0-7, shared: 8-11, ratio: 2.0, '
               'mix: true, aggregate: {priority_mix: true}'}


class ScenarioPage(testtools.TestCase):

    def setUp(self):
        super().setUp()
        scenario = document.Document(SCENARIO, 'text')
        with cloud.Cloud.running() as running:
            recorder = page.Recorder(scenario)
            self.played = player.Player(
                running, scenario, lambda line: None, recorder).play()
            self.text = templates.render(recorder.make_page(self.played))
        self.document = json.loads(json.dumps(self.played.to_dict()))

    def test_page_shows_the_hosts_after_each_step(self):
        self.assertEqual([], self.played.surprises)
        self.assertEqual(self.document, html_page.read_data(self.text))
        steps = [html_page.read_hosts(self.text, step) for step in range(8)]
        self.assertEqual({}, steps[0]['mix-1'].get_servers())
        # Row, pinned CPUs, CPUs on which the server floats.
        (_, pins_of_1, _), (_, pins_of_2, _) = (
            steps[1]['mix-1'].get_servers().values())
        self.assertEqual(set(range(8)), pins_of_1 | pins_of_2)
        self.assertEqual('0 left 8 of 8 sold',
                         steps[1]['mix-1'].get_rows()['high'])
        # The source holds the CPUs until the migration is confirmed.
        for step in (2, 3):
            self.assertEqual(
                {**dict.fromkeys(pins_of_1, '?'),
                 **dict.fromkeys(pins_of_2, 'A')},
                steps[step]['mix-1'].get_map('pinned'))
        self.assertEqual(dict.fromkeys(pins_of_2, 'A'),
                         steps[4]['mix-1'].get_map('pinned'))
        self.assertEqual({}, steps[4]['mix-1'].get_map('low'))
        self.assertEqual(dict.fromkeys(range(12), '~1'),
                         steps[5]['mix-1'].get_map('low'))
        self.assertEqual({'batch'}, steps[6]['mix-1'].get_servers().keys())
        self.assertNotIn('not available', steps[6]['mix-1'].text)
        self.assertIn('The host is down.', steps[7]['mix-1'].text)
        self._check_last_step(steps[7])
        self._check_refusals()

    def _check_last_step(self, hosts):
        """Check that the last step is the result."""
        for name, host in hosts.items():
            cpus = {server['name']: server['cpus']
                    for server in self.document['servers']
                    if server['host'] == name and server['cpus']}
            self.assertEqual(cpus.keys(), host.get_servers().keys())
            for server, (row, *found) in host.get_servers().items():
                # Guests of low priority have no pins.
                self.assertEqual(
                    [set(), set(cpus[server])] if row == 'low' else
                    [set().union(*cpus[server]), set()], found)

    def _check_refusals(self):
        """Check that equal refusals of a step are shown once, with servers."""
        self.assertEqual([[], [], [], [
            ('✗ Refused: late-1, late-2',
             'mix-2: the request names another host')], [], [], [], []],
            [[(text[0], text[-1]) for text in html_page.read_refusals(
                self.text, step)] for step in range(8)])
