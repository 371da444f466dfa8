# SPDX-License-Identifier: Apache-2.0

"""Bursts of creates at plain Nova, for a comparison with test_load.py.

The tests record the oversold CPUs of plain Nova and limit nothing: the effect
of parallel requests on each other differs in each run.
"""

import pytest

from tests.live import cloud
from tests.live import load as loads


@pytest.fixture(scope='module', autouse=True)
def watched():
    """Do not check the invariants: plain Nova does not keep them."""


@pytest.fixture(scope='module')
def plain_load(layout, load):
    """Load for the same hosts, where Nova runs without this package."""
    services = cloud.Cloud(layout)
    services.configure(is_plain=True)
    yield load
    services.configure(is_plain=False)


@pytest.mark.parametrize('number', loads.NUMBERS)
def test_record_oversold_cpus_of_plain_nova(
        plain_load, number, record_property):
    outcome = plain_load.burst(number)
    plain_load.delete_servers()
    assert number == len(outcome.of('ACTIVE') + outcome.of('ERROR'))
    record_property('hosts', outcome.record)
    # If less is sold, the comparison is not valid.
    for host, sold in outcome.sold.items():
        for row, units in outcome.sellable[host].items():
            assert sold[row] > units / 2, (host, row)
