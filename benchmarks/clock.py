# SPDX-License-Identifier: Apache-2.0

"""How time is taken: both sides in turn, the median of all turns."""

import gc
import statistics
import time


def seconds(call):
    """Return (seconds, result) of a call.

    The seconds are those of the processor: nothing here waits, and what else
    runs on the machine is left out. What was there before is collected first
    and then left alone, so that the garbage collector looks only at what the
    call itself makes.
    """
    gc.collect()
    gc.freeze()
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def alternate(stock, ours, repeats):
    """Return both sides' results, a list each, of calls made in turn.

    :param stock: function without arguments
    :param ours: the same
    :param repeats: how often each is called; either one begins every other
        time
    """
    found = {stock: [], ours: []}
    for turn in range(repeats):
        for side in (stock, ours) if turn % 2 else (ours, stock):
            found[side].append(side())
    return found[stock], found[ours]


def figures(key, stock, ours, number):
    """Return microseconds of both sides and their ratio, ours over stock.

    :param key: prefix of the keys of the result
    :param stock: list of seconds
    :param ours: the same
    :param number: divisor of the seconds, such as the number of hosts
    """
    stock_us, ours_us = (statistics.median(side) / number * 1e6
                         for side in (stock, ours))
    return {key + '.stock_us': stock_us, key + '.ours_us': ours_us,
            key + '.ratio': ours_us / stock_us}
