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

"""Scenarios: what to create on which hosts, and what became of it.

* :mod:`nova_prio.scenario.document`: reads and checks a scenario file (pure)
* :mod:`nova_prio.scenario.verbs`: the steps that a scenario can take
* :mod:`nova_prio.scenario.cloud`: the stock Nova that it is played on
* :mod:`nova_prio.scenario.host_options`: options of their own for its hosts
* :mod:`nova_prio.scenario.player`: plays the steps through Nova's API
* :mod:`nova_prio.scenario.migrations`: what Nova says of a server's moves
* :mod:`nova_prio.scenario.interrupt`: ends a play at Ctrl-C
* :mod:`nova_prio.scenario.result`: what happened, as data (pure)
* :mod:`nova_prio.scenario.render`: the same as text (pure)
"""
