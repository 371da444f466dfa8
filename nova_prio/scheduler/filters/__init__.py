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

"""Scheduler filters of this package."""

from nova_prio.scheduler import plugins
from nova_prio.scheduler import start

NAMESPACE = 'nova_prio.scheduler.filters'


def all_filters():
    """Return the filter classes; for ``[filter_scheduler] available_filters``.

    :returns: list of nova.scheduler.filters.BaseHostFilter subclasses
    :raises SystemExit: where Nova or its configuration does not match
    """
    start.start()
    return plugins.load(NAMESPACE)
