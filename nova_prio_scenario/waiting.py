# SPDX-License-Identifier: Apache-2.0

"""Waits for the end of a step about a server.

``api`` is the client of an administrator. ``shown`` is a server as the API
shows it, a dict; None if the server is deleted.
"""

import time

from nova.tests.functional.api import client

from nova_prio_scenario import migrations
from nova_prio_scenario import result

#: Seconds to wait for the end of a step, and between two requests.
PATIENCE_SECONDS = 60
INTERVAL_SECONDS = 0.03


def wait(api, server, is_reached, problem):
    """Wait for a state of a server; return the server as the API shows it.

    :param server: result.Server
    :param is_reached: function, (api, shown) to bool
    :param problem: what the server is after the timeout, for the error
    :returns: dict; None if the server is deleted
    :raises result.PlayFailed: after the timeout
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            shown = api.get_server(server.id)
        except client.OpenStackApiNotFoundException:
            shown = None
        if is_reached(api, shown):
            return shown
        time.sleep(INTERVAL_SECONDS)
    raise result.PlayFailed('%s is %s after %d seconds' % (
        server.name, problem, PATIENCE_SECONDS))


def is_built(api, shown):
    """Return whether the build of a server has ended, well or not."""
    if shown['status'] == 'ACTIVE':
        return True
    # Nova adds the fault after it has set the status.
    return shown['status'] == 'ERROR' and 'fault' in shown


def is_idle(api, shown):
    """Return whether a server has neither a task nor an open migration."""
    return (shown['OS-EXT-STS:task_state'] is None and
            migrations.is_settled(api, shown['id']))


def is_deleted(api, shown):
    """Return whether a server is deleted."""
    return shown is None
