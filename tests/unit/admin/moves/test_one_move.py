# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import servers
from nova_prio.model.planner import fleet


def state(host, status='SHELVED_OFFLOADED'):
    return servers.ServerState(host=host, status=status, task_state=None)


def test_host_of_an_offloaded_server_is_awaited():
    """Nova writes the state first, and removes the host a moment later."""
    found = mock.create_autospec(servers.Servers, instance=True)
    found.read.side_effect = [
        state('a', 'ACTIVE'), state('a'), state('a'), state(None)]
    move = one_move.OneMove(
        found, fleet.Move('1', fleet.SHELVE, 'a', None), choose=None)
    move.start()
    for _ in range(2):
        move.follow()
        assert one_move.RUNNING == move.state
    move.follow()
    assert (one_move.DONE, '') == (move.state, move.reason)
