# SPDX-License-Identifier: Apache-2.0

"""How costs grow with the size of a cloud.

Other parts of the benchmark measure some costs at several sizes. This part
measures the rest: by the number of Nova's cells, of aggregates, of hosts, and
of requests that arrive at once.
"""

import functools

import nova.conf

from benchmarks import audit
from benchmarks import clock
from benchmarks import end_to_end
from benchmarks import request_filter
from nova_prio_scenario import cloud

CELLS = (1, 2, 4)
AGGREGATES = (1, 10, 100)
REQUESTS = (1, 4, 16)
#: Number of candidates of the requests in several cells.
_CANDIDATES = 20


def measure(size, repeats):
    """Return the figures by the number of cells, of aggregates and of hosts.

    :param size: number of hosts
    :param repeats: number of measurements of each side
    """
    found = {}
    for number in CELLS:
        found.update(_measure_cells(number, size, repeats))
    for number in size // 10, size:
        found.update(audit.measure_all_hosts(
            'scale.audit_of_%d' % number, number, repeats))
    for number in size, 10 * size:
        found.update(_measure_filter(
            'scale.request_filter_hosts_%d' % number, number, 1, repeats))
    for number in AGGREGATES:
        found.update(_measure_filter(
            'scale.request_filter_aggregates_%d' % number, 10 * size, number,
            repeats))
    return found


def _measure_cells(number, size, repeats):
    """Return the figures of a request and of an audit in some cells.

    :param number: number of cells
    :param size: number of all hosts; they are fewer if the cells cannot
        have equal numbers
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    cloud_of_cells = type(
        'CloudOfCells', (cloud.Cloud,), {'NUMBER_OF_CELLS': number})
    with cloud_of_cells.running() as running:
        of_cell = size // number
        engines = end_to_end.copy_hosts(running, of_cell, number)
        found = clock.figures(
            'scale.audit_in_%d' % number,
            *audit.time_sides(of_cell * number, repeats), 1)
        # The second side changes the options that the first one reads.
        ours = end_to_end.Side(running, is_stock=False)
        stock = end_to_end.Side(running, is_stock=True)
        running.flags(max_placement_results=_CANDIDATES, group='scheduler')
        found.update(end_to_end.measure_kind(
            'scale.request_in_%d' % number, stock, ours, 'low', 1, repeats,
            engines))
        if number == 1:
            found.update(_measure_requests(stock, ours, repeats))
    return found


def _measure_requests(stock, ours, repeats):
    """Return the figures of low-priority requests that arrive at once.

    :param stock: end_to_end.Side
    :param ours: end_to_end.Side
    """
    found = {}
    for number in REQUESTS:
        times = clock.alternate(
            functools.partial(stock.select, 'low', 1, number),
            functools.partial(ours.select, 'low', 1, number), repeats)
        found.update(clock.figures('scale.requests_%d' % number, *times, 1))
    return found


def _measure_filter(key, hosts, aggregates, repeats):
    """Return the figures of the request filter, of a low-priority request."""
    found = request_filter.measure(hosts, repeats, aggregates=aggregates)
    return {key + side: found['request_filter.low' + side]
            for side in ('.stock_us', '.ours_us', '.ratio')}
