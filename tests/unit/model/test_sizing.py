# SPDX-License-Identifier: Apache-2.0

import decimal

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import sizing

CPUS = st.integers(1, 128)
RATIOS = st.decimals('0.01', '20', places=2)


def make_size(dedicated, shared, ratio, mix=True):
    return sizing.HostSize(dedicated, shared, ratio and decimal.Decimal(ratio),
                           mix)


#: The example in capacity.py, with 12 CPUs.
EXAMPLE = (8, 4, '2')


@pytest.mark.parametrize('given, target, solution', [
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
def test_smallest_solution_is_found(given, target, solution):
    if 'overall' in target:
        target = dict(overall=decimal.Decimal(target['overall']))
    assert make_size(*solution) == sizing.solve(make_size(*given), **target)


@pytest.mark.parametrize('given, target, words', [
    ((None, 4, '2'), dict(overall=2), 'Any number of dedicated CPUs gives an '
     'overall ratio of 2 with shared 4, ratio 2 and mix.'),
    ((None, 4, '2', False), dict(low=8), 'Any number of dedicated CPUs gives '
     '8 low-priority vCPUs with shared 4, ratio 2 without mix.'),
    ((None, 4, '1'), dict(low=5), 'No number of dedicated CPUs up to 4096'),
    ((8, None, '0'), dict(low=1), 'No number of shared CPUs up to 4096'),
    ((8, 0, None, False), dict(low=1), 'No ratio up to 1000 gives 1 low'),
])
def test_no_solution_says_why(given, target, words):
    with pytest.raises(sizing.NoSolution) as error:
        sizing.solve(make_size(*given), **target)
    assert words in str(error.value)


@hypothesis.given(CPUS, CPUS, RATIOS, st.booleans(),
                  st.sampled_from(['dedicated', 'shared', 'ratio']),
                  st.booleans())
@hypothesis.settings(max_examples=100, deadline=None)
def test_solution_is_enough_and_a_smaller_value_is_not(
        dedicated, shared, ratio, mix, name, is_low):
    """The size of a host that sells as much is the solution, or larger."""
    host = sizing.HostSize(dedicated, shared, ratio, mix)
    target = (dict(low=host.sellable.low) if is_low
              else dict(overall=host.overall_ratio))
    try:
        solution = sizing.solve(host._replace(**{name: None}), **target)
    except sizing.NoSolution as error:
        assert str(error).startswith('Any number')
        return

    def measure(each):
        return each.sellable.low if is_low else each.overall_ratio

    assert measure(solution) >= measure(host)
    if name == 'ratio' or is_low:
        assert getattr(solution, name) <= getattr(host, name)
        step = {'ratio': decimal.Decimal('0.0001')}.get(name, 1)
        value = getattr(solution, name) - step
        if value >= (0 if name == 'ratio' else int(mix)):
            smaller = solution._replace(**{name: value})
            assert measure(smaller) < measure(host)
    else:
        assert measure(solution) == measure(host)
