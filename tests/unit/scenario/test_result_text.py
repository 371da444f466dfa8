# SPDX-License-Identifier: Apache-2.0

"""The result as text: the table, the refusals and the maps."""

import pytest

from nova_prio_scenario import result
from nova_prio_scenario import result_text


def server(name, cpus, priority=None, host='seed', **kwargs):
    """Return an active server with a guest."""
    return result.Server(name, 'id', priority, 'ACTIVE', host, cpus,
                         priority and '/%s_prio_machine' % priority, **kwargs)


def host(name='seed', cpus=12):
    """Return a host of a scenario file."""
    return {'name': name, 'cpus': cpus}


def report(**values):
    """Return a host of a result, without any usage."""
    return {'state': 'up', 'status': 'enabled', 'dedicated': '0-7',
            'shared': '8-11', 'domains': {}, 'classes': None, 'inventory': {},
            'allocations': {}, **values}


def rows(low_used=4, ordinary_used=0):
    """Return the ``classes`` of the seed host."""
    return {'high': {'sellable': 8, 'used': 8},
            'low': {'sellable': 16, 'used': low_used},
            'ordinary': {'sellable': 8, 'used': ordinary_used}}


SEED = report(
    classes=rows(),
    inventory={
        'PCPU': {'total': 8, 'reserved': 0, 'allocation_ratio': 1.0},
        'VCPU': {'total': 12, 'reserved': 4, 'allocation_ratio': 2.0},
        'MEMORY_MB': {'total': 1, 'reserved': 0, 'allocation_ratio': 1.0}},
    allocations={'a': {'resources': {'PCPU': 8}},
                 'b': {'resources': {'VCPU': 4, 'MEMORY_MB': 1}}})

SERVERS = [
    server('high-1', [[0], [2], [4], [6]], 'high'),
    server('high-2', [[1], [3], [5], [7]], 'high'),
    result.Server('high-3', 'id', 'high', 'ERROR',
                  faults={3: 'step 3 (create): No valid host was found.\n'
                             'seed: no room'}),
    server('low-1', list(range(12)), 'low'),
]

GOLDEN = """\
+--------+----------+--------+------+----------------+--------------------+
| name   | priority | status | host | CPUs           | partition          |
+--------+----------+--------+------+----------------+--------------------+
| high-1 | high     | ACTIVE | seed | pinned 0,2,4,6 | /high_prio_machine |
| high-2 | high     | ACTIVE | seed | pinned 1,3,5,7 | /high_prio_machine |
| high-3 | high     | ERROR  | -    | -              | -                  |
| low-1  | low      | ACTIVE | seed | floats 0-11    | /low_prio_machine  |
+--------+----------+--------+------+----------------+--------------------+

high-3, step 3 (create): No valid host was found.
  seed: no room

host seed: 12 CPUs, dedicated 0-7, shared 8-11
CPU       | 0| 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|
high      | A| B| A| B| A| B| A| B|  |  |  |  |
low       |~~|~~|~~|~~|~~|~~|~~|~~|~~|~~|~~|~~|
pinned    A high-1, B high-2
floats    low-1 (low, over 0-11)
sold      8 of 8 high (0 left), 4 of 16 low (12 left), 0 of 8 ordinary (8 left)
placement 8 of 8 PCPU (total 8, reserved 0, allocation ratio 1.0)
placement 4 of 16 VCPU (total 12, reserved 4, allocation ratio 2.0)
"""


def test_format_result_shows_servers_refusals_and_maps():
    seed = result.Result(SERVERS, [SEED])
    assert result_text.format_result(seed, [host()]) == GOLDEN


def test_format_result_sorts_refusals_by_step():
    servers = [
        server('s', [0], faults={2: 'step 2 (shelve): no',
                                 10: 'step 10 (x): n'}),
        server('t', [0], faults={3: 'step 3 (x): n'})]
    shown = result_text.format_result(result.Result(servers, []), [])
    assert shown.split('\n\n')[1:] == [
        's, step 2 (shelve): no', 't, step 3 (x): n', 's, step 10 (x): n\n']


def test_servers_share_an_equal_refusal_of_one_step():
    faults = {2: 'step 2 (create): no\nseed: no room'}
    servers = [server('s', [0], faults=faults),
               server('t', [0], faults={2: 'step 2 (create): never'}),
               server('u', [0], faults={**faults, 3: 'step 3 (x): no'})]
    played = result.Result(
        servers, [], host_faults={'seed': {3: 'step 3 (x): no start'}})
    assert list(result_text.format_faults(played)) == [
        's, u, step 2 (create): no\n  seed: no room',
        't, step 2 (create): never', 'u, step 3 (x): no',
        'seed, step 3 (x): no start']


@pytest.mark.parametrize('changes, marks', [
    ({'state': 'down'}, 'down'), ({'status': 'disabled'}, 'disabled'),
    ({'state': 'down', 'status': 'disabled'}, 'down, disabled')])
def test_map_shows_the_state_of_a_host(changes, marks):
    assert result_text.draw_host(host(), report(**changes), []).startswith(
        'host seed (%s): 12 CPUs, dedicated 0-7, shared 8-11\n' % marks)


def test_map_keeps_the_cpus_of_stopped_servers():
    servers = [server('high-1', [[0], [2]], 'high'),
               server('low-1', list(range(12)), 'low'),
               server('low-2', list(range(12)), 'low')]
    servers[0].status = servers[2].status = 'SHUTOFF'
    lines = result_text.draw_host(host(), SEED, servers).splitlines()
    assert lines[2:6] == [
        'high      | A|  | A|  |  |  |  |  |  |  |  |  |',
        'low       |~~|~~|~~|~~|~~|~~|~~|~~|~~|~~|~~|~~|',
        'pinned    A high-1 (stopped)',
        'floats    low-1, low-2 (stopped) (low, over 0-11)']


def test_mixed_guest_has_lines_for_pinned_and_floating_cpus():
    mixed = server('m', [[3], [8, 9], [8, 9]])
    assert '| pinned 3, floats 8-9 |' in result_text.format_servers([mixed])
    lines = result_text.draw_host(host(), SEED, [mixed]).splitlines()
    assert lines[2] == 'ordinary  |  |  |  | A|  |  |  |  |  |  |  |  |'
    assert lines[3] == 'ordinary  |  |  |  |  |  |  |  |  |~~|~~|  |  |'


def test_map_omits_servers_of_other_hosts():
    other = server('x', [[0]], 'high', host='other')
    text = result_text.draw_host(host(), SEED, [other])
    assert 'pinned' not in text


@pytest.mark.parametrize('low_used, ordinary_used, left', [
    (4, 2, '12 left), 2 of 8 ordinary (6 left)'),   # 16 - 4, 8 - 2
    (16, 0, '0 left), 0 of 8 ordinary (0 left)'),   # the low row is full
    (18, 9, '0 left), 9 of 8 ordinary (0 left)'),   # oversold
])
def test_map_shows_remaining_vcpus_of_each_row(low_used, ordinary_used, left):
    sold = result_text.draw_host(
        host(), report(classes=rows(low_used, ordinary_used)), [])
    assert sold.endswith('%d of 16 low (%s' % (low_used, left))


def test_map_of_a_host_with_the_stock_driver_shows_placement_usage():
    stock = report(
        dedicated=None, shared=None, domains={'zone': 'a', 'rack': '1'},
        inventory={
            'VCPU': {'total': 2, 'reserved': 0, 'allocation_ratio': 4.0}})
    assert result_text.draw_host(host('stock', 2), stock, []) == (
        'host stock: 2 CPUs, zone a, rack 1\n'
        'CPU       | 0| 1|\n'
        'placement 0 of 8 VCPU (total 2, reserved 0, allocation ratio 4.0)')


def test_map_of_a_large_host_fits_into_100_columns():
    servers = [server('high-with-a-long-name-%d' % number,
                      [[2 * number], [2 * number + 1]], 'high', 'wide')
               for number in range(40)]
    servers.append(server('low', list(range(144)), 'low', 'wide'))
    lines = result_text.draw_host(
        host('wide', 144), report(), servers).splitlines()
    assert max(len(line) for line in lines) <= 100
    assert lines[1:7] == [
        'CPU       0        8        16       24       '
        '32       40       48       56',
        'high      AABBCCDD EEFFGGHH IIJJKKLL MMNNOOPP '
        'QQRRSSTT UUVVWWXX YYZZaabb ccddeeff',
        'low       ' + ' '.join(['~' * 8] * 8),
        'CPU       64       72       80       88       '
        '96       104      112      120',
        'high      gghhiijj kkllmmnn ' + ' '.join(['.' * 8] * 6),
        'low       ' + ' '.join(['~' * 8] * 8)]
    # A row has no line in a block without its pins.
    assert lines[7:9] == ['CPU       128      136',
                          'low       ~~~~~~~~ ~~~~~~~~']


def test_map_has_two_letters_per_server_beyond_52_servers():
    servers = [server('s%d' % number, [[number]], 'high', 'wide')
               for number in range(60)]
    lines = result_text.draw_host(
        host('wide', 64), report(), servers).splitlines()
    assert lines[2].startswith('high      AAABACADAEAFAGAH AIAJ')
    assert max(len(line) for line in lines) <= 100
    assert 'BH s59' in lines[-1]
