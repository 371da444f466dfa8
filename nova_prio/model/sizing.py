# SPDX-License-Identifier: Apache-2.0

"""Find the CPUs, or the ratio, that a host needs to sell enough vCPUs."""

import bisect
from collections import abc
import decimal
import fractions
import typing

from nova_prio.model import capacity

MOST_CPUS = 4096
MOST_RATIO = 1000
# The values of a HostSize of which none is None.
_Complete = tuple[int, int, decimal.Decimal, bool]
#: Digits of a found ratio behind the decimal point.
_DIGITS = 4


class NoSolution(ValueError):
    """No value reaches the target, or every value does: a sentence."""


class HostSize(typing.NamedTuple):
    """Numbers of CPUs and the ratio of a host; solve() finds one of them."""

    dedicated: int | None
    shared: int | None
    ratio: decimal.Decimal | None
    mix: bool

    @property
    def sellable(self) -> capacity.Rows:
        """The sellable vCPUs, if no value is None."""
        return capacity.calculate_sellable(*typing.cast(_Complete, self))

    @property
    def overall_ratio(self) -> fractions.Fraction:
        """Sellable vCPUs for each CPU, if no value is None; 0 without CPUs."""
        dedicated, shared, *_ = typing.cast(_Complete, self)
        return fractions.Fraction(
            self.sellable.high + self.sellable.low, (dedicated + shared) or 1)


def solve(size: HostSize, low: int | None = None,
          overall: decimal.Decimal | None = None) -> HostSize:
    """Return the HostSize that reaches a target, and sells as little more.

    Give one of the targets ``low`` and ``overall``.

    :param size: host of which exactly one value is None
    :param low: number of vCPUs that the low row must sell
    :param overall: ``overall_ratio`` that the host must reach
    :raises NoSolution: if no value reaches the target, or if every value does
    """
    name = size._fields[size.index(None)]
    # Any arguments: mypy cannot know which of the fields ``name`` is.
    replace: abc.Callable[..., HostSize] = size._replace
    given = ', '.join('%s %s' % (field, value)
                      for field, value in size._asdict().items()
                      if value is not None and field != 'mix')
    given += ' and mix' if size.mix else ' without mix'
    target: int | fractions.Fraction
    if overall is None:
        target = typing.cast(int, low)
        goal = '%d low-priority vCPUs with %s' % (target, given)
    else:
        target = fractions.Fraction(overall)
        goal = 'an overall ratio of %s with %s' % (overall, given)

    def measure(value: int | decimal.Decimal) -> int | fractions.Fraction:
        """Return the number or ratio that a value gives, as in the target."""
        candidate = replace(**{name: value})
        return (candidate.sellable.low if overall is None
                else candidate.overall_ratio)

    if name == 'ratio':
        # In steps of 10 ** -_DIGITS. A larger ratio never sells less.
        steps = range(MOST_RATIO * 10 ** _DIGITS + 1)
        step = bisect.bisect_left(
            steps, target,
            key=lambda each: measure(decimal.Decimal(each).scaleb(-_DIGITS)))
        if step == len(steps):
            raise NoSolution(
                'No ratio up to %d gives %s.' % (MOST_RATIO, goal))
        return size._replace(
            ratio=decimal.Decimal(step).scaleb(-_DIGITS).normalize())
    # nova-compute refuses to start with mix if one of the sets is empty.
    numbers = range(int(size.mix), MOST_CPUS + 1)
    measures = {number: measure(number) for number in numbers}
    enough = [number for number in numbers if measures[number] >= target]
    if not enough:
        raise NoSolution('No number of %s CPUs up to %d gives %s.' % (
            name, MOST_CPUS, goal))
    if measures[numbers[0]] == measures[numbers[-1]]:
        raise NoSolution('Any number of %s CPUs gives %s.' % (name, goal))
    return replace(**{name: min(enough, key=measures.__getitem__)})
