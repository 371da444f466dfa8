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

"""The steps that a scenario can take.

A verb is one class in :data:`VERBS`: which keys its step may have, what has
to exist before, and which calls of the player it makes. A new verb is a new
class; nothing else has to change.
"""

from nova_prio.scenario import schema
from nova_prio.scenario.verbs import hosts
from nova_prio.scenario.verbs import moves
from nova_prio.scenario.verbs import servers

VERBS = {'create': servers.Create(), **{verb.name: verb for verb in (
    servers.Delete(), moves.Resize(), moves.Migrate(), moves.Confirm(),
    moves.Revert(), moves.LiveMigrate(), servers.Shelve(),
    servers.Unshelve(), hosts.HostDown(), moves.Evacuate(), servers.Start(),
    hosts.HostUp())}}


def step_rules():
    """Return the schema of one step: one verb, and what it is to end as."""
    keys = {name: schema.mapping(verb.properties, verb.required)
            for name, verb in VERBS.items()}
    keys['expect'] = schema.TEXT
    return schema.mapping(keys, [])
