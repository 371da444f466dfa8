# SPDX-License-Identifier: Apache-2.0

"""The result as text: the table, the refusals and the maps."""

from nova_prio.scenario import render
from nova_prio.scenario import result


def server(name, cpus, priority=None, host='seed', **kwargs):
    return result.Server(name, 'id', priority, 'ACTIVE', host, cpus,
                         priority and '/%s_prio_machine' % priority, **kwargs)


def seed(**kwargs):
    rows = {'high': (8, 8), 'low': (16, 4), 'ordinary': (8, 0)}
    return result.Host(
        'seed', 12, frozenset(range(8)), frozenset(range(8, 12)),
        classes={row: {'sellable': sellable, 'used': used}
                 for row, (sellable, used) in rows.items()},
        inventory={
            'PCPU': {'total': 8, 'reserved': 0, 'allocation_ratio': 1.0},
            'VCPU': {'total': 12, 'reserved': 4, 'allocation_ratio': 2.0},
            'MEMORY_MB': {'total': 1, 'reserved': 0,
                          'allocation_ratio': 1.0}},
        allocations={'a': {'resources': {'PCPU': 8}},
                     'b': {'resources': {'VCPU': 4, 'MEMORY_MB': 1}}},
        **kwargs)


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


def test_text_shows_servers_refusals_and_maps():
    assert render.text(result.Result(SERVERS, [seed()])) == GOLDEN


def test_refused_steps_are_shown_in_their_order():
    servers = [
        server('s', [0], faults={2: 'step 2 (shelve): no',
                                 10: 'step 10 (x): n'}),
        server('t', [0], faults={3: 'step 3 (x): n'})]
    shown = render.text(result.Result(servers, []))
    assert shown.split('\n\n')[1:] == [
        's, step 2 (shelve): no', 't, step 3 (x): n', 's, step 10 (x): n\n']


def test_map_says_that_the_host_is_down():
    assert render.host_map(seed(state='down'), []).startswith(
        'host seed (down): 12 CPUs, dedicated 0-7, shared 8-11\n')


def test_mixed_policy_is_pinned_and_floats():
    mixed = server('m', [[3], [8, 9], [8, 9]])
    assert '| pinned 3, floats 8-9 |' in render.server_table([mixed])
    lines = render.host_map(seed(), [mixed]).splitlines()
    assert lines[2] == 'ordinary  |  |  |  | A|  |  |  |  |  |  |  |  |'
    assert lines[3] == 'ordinary  |  |  |  |  |  |  |  |  |~~|~~|  |  |'


def test_map_leaves_out_servers_of_other_hosts():
    text = render.host_map(seed(), [server('x', [[0]], 'high', host='other')])
    assert 'pinned' not in text


def test_a_host_with_the_stock_driver_shows_its_placement_usage():
    host = result.Host('stock', 2, frozenset(), frozenset(), domains={
        'zone': 'a', 'rack': '1'}, inventory={
        'VCPU': {'total': 2, 'reserved': 0, 'allocation_ratio': 4.0}})
    assert render.host_map(host, []) == (
        'host stock: 2 CPUs, zone a, rack 1\n'
        'CPU       | 0| 1|\n'
        'placement 0 of 8 VCPU (total 2, reserved 0, allocation ratio 4.0)')


def test_a_wide_host_fits_into_100_columns():
    host = result.Host('wide', 144, frozenset(range(128)), frozenset())
    servers = [server('high-with-a-long-name-%d' % number,
                      [[2 * number], [2 * number + 1]], 'high', 'wide')
               for number in range(40)]
    servers.append(server('low', list(range(144)), 'low', 'wide'))
    lines = render.host_map(host, servers).splitlines()
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
    host = result.Host('wide', 64, frozenset(range(64)), frozenset())
    servers = [server('s%d' % number, [[number]], 'high', 'wide')
               for number in range(60)]
    lines = render.host_map(host, servers).splitlines()
    assert lines[2].startswith('high      AAABACADAEAFAGAH AIAJ')
    assert max(len(line) for line in lines) <= 100
    assert 'BH s59' in lines[-1]
