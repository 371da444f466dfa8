# SPDX-License-Identifier: Apache-2.0

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


def log_failure(component, consequence, host_state=None):
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
