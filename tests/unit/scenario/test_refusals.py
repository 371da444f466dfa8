# SPDX-License-Identifier: Apache-2.0

"""Why no host takes a request."""

import pytest

from nova_prio.compat import contract
from nova_prio_scenario import refusals
from nova_prio_scenario import result
from tests.unit.placement import providers


def test_convert_refused_start_keeps_the_message_of_the_service():
    with (pytest.raises(result.PlayFailed) as caught,
          refusals.convert_refused_start(result.PlayFailed),
          contract.exit_if_refused()):
        raise contract.StartRefused('the sentence')
    assert str(caught.value) == 'nova_prio: the sentence'


def test_explain_names_every_provider():
    empty = providers.provider(name='b', inventories={
        'PCPU': providers.inventory(8),
        'MEMORY_MB': providers.inventory(512)}, usages={})
    assert list(refusals.explain(
        providers.request({'resources': {'MEMORY_MB': 256, 'PCPU': 4}}),
        [empty, providers.provider()], {}, {})) == [
        'a: 256 MEMORY_MB needed, the host has none; '
        '4 PCPU needed, 0 free of 8',
        'b: no reason found']


@pytest.mark.parametrize('refused, usages, sentence', [
    ({'a': 'no room'}, {'PCPU': 8}, 'a: no room'),
    ({'b': 'no room'}, {'PCPU': 8}, 'a: 4 PCPU needed, 0 free of 8'),
    ({'b': 'no room'}, {},
     'a: the server is on this host; a move needs another host'),
])
def test_explain_a_move_from_a_host(refused, usages, sentence):
    assert list(refusals.explain(
        providers.request({'resources': {'PCPU': 4}}),
        [providers.provider(usages=usages)], {}, refused, own_host='a')
    ) == [sentence]
