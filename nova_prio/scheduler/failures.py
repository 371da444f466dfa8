# SPDX-License-Identifier: Apache-2.0

"""The log of unexpected exceptions in nova-scheduler.

Nova catches no exception of a filter or weigher: one bad host record would
fail every request. The plug-ins of this package must catch the exception, log
it with :func:`log_failure`, and refuse the host or give it the weight zero.
"""

import functools
import sys

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Number of logged exceptions that a process remembers. If more hosts fail,
#: some exceptions are logged again.
MOST_LOGGED = 4096


def log_failure(component, consequence, host_state=None):
    """Log the current exception, once for each type, host and component.

    :param component: name of the filter, weigher or request filter
    :param consequence: clause that says what happens to the host or request
    :param host_state: nova.scheduler.host_manager.HostState, or None if the
        exception concerns the whole request
    """
    subject = 'the request'
    if host_state is not None:
        subject = 'host %s, node %s' % (host_state.host, host_state.nodename)
    _log_once(component, consequence, subject, type(sys.exception()))


@functools.lru_cache(maxsize=MOST_LOGGED)
def _log_once(component, consequence, subject, _error_type):
    """Log the current exception.

    The cache skips a call with the same arguments, and thus the same error.
    """
    LOG.exception(
        '%(component)s failed for %(subject)s: %(consequence)s. This error is '
        'logged once for each host and type of exception. Report the '
        'traceback as a bug of nova-prio.',
        {'component': component, 'subject': subject,
         'consequence': consequence})
