# SPDX-License-Identifier: Apache-2.0

"""The least CPUs, or the least ratio, with which a host sells enough.

A host has dedicated and shared CPUs and an allocation ratio. Any one of the
three follows from the others and from what is to be sold: vCPUs in the low
row, or an overall ratio, all rows together for each CPU.
"""

import bisect
import decimal
import fractions
import typing

from nova_prio.model import capacity

#: The most CPUs of a kind, and the largest ratio, that are looked for.
MOST_CPUS = 4096
MOST_RATIO = 1000
_DIGITS = 4


class NoSolution(ValueError):
    """Nothing gives what is wanted; its text is a sentence that says why."""


class HostSize(typing.NamedTuple):
    """Numbers of CPUs of a host, ratio as a Decimal; one may be None."""

    dedicated: int | None
    shared: int | None
    ratio: decimal.Decimal | None
    mix: bool

    @property
    def sellable(self):
        """The ``capacity.Rows`` that such a host sells."""
        return capacity.calculate_sellable(*self)

    @property
    def overall_ratio(self):
        """The CPUs sold for each CPU, a Fraction; 0 without any."""
        rows = self.sellable
        return fractions.Fraction(
            rows.high + rows.low, (self.dedicated + self.shared) or 1)


def solve(terms, low=None, overall=None):
    """Return the Terms without None that sell the least that is enough.

    :param terms: Terms of which one is None
    :param low: vCPUs in the low row, an int; or
    :param overall: overall ratio, a Decimal
    :raises Impossible: if no terms are enough, or any are
    """
    name = terms._fields[terms.index(None)]
    others = ', '.join('%s %s' % pair for pair in terms._asdict().items()
                       if pair[1] is not None and pair[0] != 'mix')
    others += ' and mix' if terms.mix else ' without mix'

    def measure(number):
        found = terms._replace(**{name: number})
        return found.sellable.low if overall is None else found.overall_ratio

    def ratio_of(number):
        return decimal.Decimal(number).scaleb(-_DIGITS)

    wanted = low if overall is None else fractions.Fraction(overall)
    what = ('%d low-priority vCPUs' % low if overall is None
            else 'an overall ratio of %s' % overall)
    if name == 'ratio':
        most = MOST_RATIO * 10 ** _DIGITS
        number = bisect.bisect_left(
            range(most + 1), wanted, key=lambda each: measure(ratio_of(each)))
        if number > most:
            raise NoSolution('No ratio up to %d gives %s with %s.' % (
                MOST_RATIO, what, others))
        return terms._replace(ratio=ratio_of(number).normalize())
    # With mix nova-compute wants CPUs in both sets.
    measures = [(measure(number), number)
                for number in range(int(terms.mix), MOST_CPUS + 1)]
    enough = [pair for pair in measures if pair[0] >= wanted]
    if not enough:
        raise NoSolution('No number of %s CPUs up to %d gives %s with %s.' % (
            name, MOST_CPUS, what, others))
    if measures[0][0] == measures[-1][0]:
        raise NoSolution('Any number of %s CPUs gives %s with %s.' % (
            name, what, others))
    return terms._replace(**{name: min(enough)[1]})
