# SPDX-License-Identifier: Apache-2.0

"""The flavors of the command ``nova-prio metrics``."""

import logging
import types

from nova import context
from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import metrics
from tests.unit import nova_objects

APP = types.SimpleNamespace(LOG=logging.getLogger(__name__))


def test_each_flavor_counts_once_and_a_bad_one_is_omitted(
        monkeypatch, caplog):
    refused = nova_objects.flavor(hw__cpu_priority='none')
    flavors = {'f': nova_objects.LOW, '42': nova_objects.LOW, 'bad': refused}

    def find_flavor(_context, wanted):
        if wanted not in flavors:
            raise exceptions.CommandError('It was deleted.')
        return flavors[wanted]

    monkeypatch.setattr(controller, 'find_flavor', find_flavor)
    found = metrics._build_requests(
        APP, context.get_admin_context(), ['gone', 'bad', 'f', '42'])
    assert ['f'] == list(found)
    gone, bad = caplog.messages
    assert "Flavor 'gone' is omitted: It was deleted." == gone
    assert bad.startswith("Flavor 'bad' is omitted: ")
