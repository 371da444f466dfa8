# SPDX-License-Identifier: Apache-2.0

import decimal

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import sizing

CPUS = st.integers(1, 128)
RATIOS = st.decimals('0.01', '20', places=2)


def terms(dedicated, shared, ratio, mix=True):
    return sizing.HostSize(dedicated, shared, ratio and decimal.Decimal(ratio),
                           mix)


#: The example of the design, 12 CPUs, and the same without mix.
EXAMPLE = (8, 4, '2')


@pytest.mark.parametrize('given, wanted, found', [
    # 12 * 2 - 8 = 16 low-priority vCPUs.
    ((None, 4, '2'), dict(low=16), EXAMPLE),
    ((8, None, '2'), dict(low=16), EXAMPLE),
    ((8, 4, None), dict(low=16), EXAMPLE),
    ((8, 4, None), dict(overall=2), EXAMPLE),
    # Not even one vCPU for each CPU: (8 + 4 / 2) / 12.
    ((8, 4, None), dict(overall='0.8333'), (8, 4, '0.5')),
    # 8 + 4 * 4 = 24 = 2 * 12, but 12 + 4 * 5 = 32 = 2 * 16.
    ((8, 4, None, False), dict(overall=2), (8, 4, '4', False)),
    ((None, 4, '5', False), dict(overall=2), (12, 4, '5', False)),
    ((8, None, '4', False), dict(overall=2), (8, 4, '4', False)),
    ((8, None, '2', False), dict(low=16), (8, 8, '2', False)),
    # 17 need more than 12 * 2.08 - 8.
    ((8, 4, None), dict(low=17), (8, 4, '2.0834')),
])
def test_examples(given, wanted, found):
    if 'overall' in wanted:
        wanted = dict(overall=decimal.Decimal(wanted['overall']))
    assert terms(*found) == sizing.solve(terms(*given), **wanted)


@pytest.mark.parametrize('given, wanted, words', [
    ((None, 4, '2'), dict(overall=2), 'Any number of dedicated CPUs gives an '
     'overall ratio of 2 with shared 4, ratio 2 and mix.'),
    ((None, 4, '2', False), dict(low=8), 'Any number of dedicated CPUs gives '
     '8 low-priority vCPUs with shared 4, ratio 2 without mix.'),
    ((None, 4, '1'), dict(low=5), 'No number of dedicated CPUs up to 4096'),
    ((8, None, '0'), dict(low=1), 'No number of shared CPUs up to 4096'),
    ((8, 0, None, False), dict(low=1), 'No ratio up to 1000 gives 1 low'),
])
def test_impossible(given, wanted, words):
    with pytest.raises(sizing.NoSolution) as error:
        sizing.solve(terms(*given), **wanted)
    assert words in str(error.value)


@hypothesis.given(CPUS, CPUS, RATIOS, st.booleans(),
                  st.sampled_from(['dedicated', 'shared', 'ratio']),
                  st.booleans())
@hypothesis.settings(max_examples=100, deadline=None)
def test_what_is_found_is_enough_and_no_more(dedicated, shared, ratio, mix,
                                             name, is_low):
    """What a host sells is its own solution, or a smaller one."""
    host = sizing.HostSize(dedicated, shared, ratio, mix)
    wanted = (dict(low=host.sellable.low) if is_low
              else dict(overall=host.overall_ratio))
    try:
        found = sizing.solve(host._replace(**{name: None}), **wanted)
    except sizing.NoSolution as error:
        assert str(error).startswith('Any number')
        return

    def sold(each):
        return each.sellable.low if is_low else each.overall_ratio

    assert sold(found) >= sold(host)
    if name == 'ratio' or is_low:
        assert getattr(found, name) <= getattr(host, name)
        least = {'ratio': decimal.Decimal('0.0001')}.get(name, 1)
        fewer = getattr(found, name) - least
        if fewer >= (0 if name == 'ratio' else int(mix)):
            assert sold(found._replace(**{name: fewer})) < sold(host)
    else:
        assert sold(found) == sold(host)
