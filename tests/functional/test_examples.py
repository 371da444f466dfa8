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

"""Each example is played to its end, and teaches what it says."""

import json
import os
import pathlib
import subprocess
import sys

import testtools

EXAMPLES = pathlib.Path(__file__).parents[2] / 'examples'


class Examples(testtools.TestCase):

    def _play(self, name):
        """Play an example in a process of its own; returns its servers."""
        played = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), 'nova-prio'),
             'scenario', 'play', '--format', 'json',
             str(EXAMPLES / (name + '.yaml'))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=300)
        self.assertEqual(0, played.returncode, played.stderr)
        return {server['name']: server
                for server in json.loads(played.stdout)['servers']}

    def test_ordinary(self):
        servers = self._play('ordinary')
        self.assertIn('the ordinary row has 0 of 8 CPUs left, 4 are needed '
                      '(ordinary_capacity)', servers['plain-3']['fault'])

    def test_fleet(self):
        servers = self._play('fleet')
        self.assertEqual(
            {'mix-1', 'mix-2'},
            {servers['db-1']['host'], servers['db-2']['host']})
        self.assertIn('CUSTOM_CPU_PRIORITY', servers['lost']['fault'])

    def test_asking(self):
        servers = self._play('asking')
        self.assertEqual(('low', None), (servers['by-hint']['priority'],
                                         servers['by-flavor']['priority']))
        self.assertIn('drop the hint', servers['both']['fault'])
