# SPDX-License-Identifier: Apache-2.0

"""Find the CPUs, or the ratio, that a host needs to sell enough vCPUs."""

import bisect
import decimal
import fractions
import typing

from nova_prio.model import capacity

MOST_CPUS = 4096
MOST_RATIO = 1000
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
    def sellable(self):
        """The sellable ``capacity.Rows``."""
        return capacity.calculate_sellable(*self)

    @property
    def overall_ratio(self):
        """Sellable vCPUs for each CPU, a Fraction; 0 without CPUs."""
        return fractions.Fraction(
            self.sellable.high + self.sellable.low,
            (self.dedicated + self.shared) or 1)


def solve(size, low=None, overall=None):
    """Return the HostSize that reaches a target, and sells as little more.

    Give one of the targets ``low`` and ``overall``.

    :param size: HostSize of which exactly one value is None
    :param low: number of vCPUs that the low row must sell
    :param overall: ``overall_ratio`` that the host must reach, a Decimal
    :raises NoSolution: if no value reaches the target, or if every value does
    """
    name = size._fields[size.index(None)]
    given = ', '.join('%s %s' % (field, value)
                      for field, value in size._asdict().items()
                      if value is not None and field != 'mix')
    given += ' and mix' if size.mix else ' without mix'
    if overall is None:
        target, goal = low, '%d low-priority vCPUs with %s' % (low, given)
    else:
        target = fractions.Fraction(overall)
        goal = 'an overall ratio of %s with %s' % (overall, given)

    def measure(value):
        """Return the number or ratio that a value gives, as in the target."""
        candidate = size._replace(**{name: value})
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
    return size._replace(**{name: min(enough, key=measures.get)})
