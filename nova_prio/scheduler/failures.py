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

"""What the scheduler does about an exception that nobody expected.

Nova catches nothing that a filter or a weigher raises: one bad host would fail
each request of its scheduler. Ours contain the exception, and log it here.
"""

import functools
import sys

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Number of exceptions that a process remembers to have logged. If more
#: hosts fail, some are logged again.
MOST_LOGGED = 4096


def log(component, consequence, host_state=None):
    """Log the exception that is being handled, with its traceback.

    An exception type is logged once for each host and component.

    :param component: name of the filter or weigher
    :param consequence: clause that says how the component goes on
    :param host_state: nova.scheduler.host_manager.HostState, or None if the
        exception concerns the whole request
    """
    where = ('the request' if host_state is None else 'host %s, node %s' % (
        host_state.host, host_state.nodename))
    _log(component, consequence, where, sys.exc_info()[0])


@functools.lru_cache(maxsize=MOST_LOGGED)
def _log(component, consequence, where, _error_type):
    LOG.exception(
        '%(component)s failed for %(where)s: %(consequence)s. This is logged '
        'once for each host and type of exception. Report it with the '
        'traceback as a bug of nova-prio.',
        {'component': component, 'where': where, 'consequence': consequence})
