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
    """Do not check invariants: plain Nova does not promise them."""


@pytest.fixture(scope='module')
def plain_load(layout, load):
    """Load for the same hosts, on which Nova runs without this package."""
    services = cloud.Cloud(layout)
    services.configure(is_plain=True)
    yield load
    services.configure(is_plain=False)


@pytest.mark.parametrize('number', loads.NUMBERS)
def test_what_is_oversold(plain_load, number, record_property):
    outcome = plain_load.burst(number)
    plain_load.end()
    assert number == len(outcome.of('ACTIVE') + outcome.of('ERROR'))
    record_property('hosts', outcome.record)
    # Otherwise the comparison would mean nothing.
    for host, sold in outcome.sold.items():
        for row, units in outcome.sellable[host].items():
            assert sold[row] > units / 2, (host, row)
