# SPDX-License-Identifier: Apache-2.0

"""Measure the time of Nova and of nova_prio in turn."""

import gc
import statistics
import time


def seconds(call):
    """Return (seconds, result) of a call.

    The seconds are processor time: no call waits, and other processes of the
    machine must not count. Garbage is collected before the call, and existing
    objects are frozen. So the garbage collector sees only the objects that the
    call creates.
    """
    gc.collect()
    gc.freeze()
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def alternate(stock, ours, repeats):
    """Call two functions in turn; return the list of results of each.

    :param stock: function without arguments, for stock Nova
    :param ours: function without arguments, for nova_prio
    :param repeats: number of calls of each function; each function is called
        first in every other turn
    """
    found = {stock: [], ours: []}
    for turn in range(repeats):
        for side in (stock, ours) if turn % 2 else (ours, stock):
            found[side].append(side())
    return found[stock], found[ours]


def figures(key, stock, ours, number):
    """Return the medians in microseconds, and the ratio ``ours / stock``.

    :param key: prefix of the keys of the result
    :param stock: list of seconds of stock Nova
    :param ours: list of seconds of nova_prio
    :param number: divisor of the seconds, such as the number of hosts
    """
    stock_us, ours_us = (statistics.median(side) / number * 1e6
                         for side in (stock, ours))
    return {key + '.stock_us': stock_us, key + '.ours_us': ours_us,
            key + '.ratio': ours_us / stock_us}
