# SPDX-License-Identifier: Apache-2.0

"""The map and the table of the CPUs of a host."""

from nova_prio.admin.page import content
from nova_prio.admin.page import cpu_map
from tests.unit.admin.page import contents

HIGH = contents.guest('db', 'high', pinned=range(4), floating=())
LOW = contents.guest('batch')


def lanes(host, block=0):
    """Return name of a lane -> list of (left, width, kind, text)."""
    return {lane: [box[:4] for box in boxes] for lane, boxes in (
        cpu_map.draw(host)[block].lanes.items())}


def test_map_joins_neighbouring_cpus():
    web = contents.guest('web', 'ordinary', floating=contents.SHARED)
    assert lanes(contents.host(guests=[HIGH, LOW, web])) == {
        'set': [(0, 8, 'dedicated', 'dedicated'), (8, 4, 'shared', 'shared')],
        'pinned': [(0, 4, 'high', 'A')],
        'low': [(0, 12, 'low', '~1')],
        'ordinary': [(8, 4, 'ordinary', '~1')]}


def test_neighbours_with_other_servers_are_separate_boxes():
    pinned = [contents.guest(name, 'high', pinned=cpus, floating=())
              for name, cpus in (('a', (0, 2)), ('b', (1, 3)))]
    assert [box[:2] + box[3:] for box in lanes(
        contents.host(guests=pinned))['pinned']] == [
            (0, 1, 'A'), (1, 1, 'B'), (2, 1, 'A'), (3, 1, 'B')]


def test_large_host_has_blocks():
    host = contents.host(
        dedicated=frozenset(range(4, 20)), shared=frozenset(range(2, 4)),
        guests=[contents.guest('db', 'high', range(14, 18), ())])
    first, second = cpu_map.draw(host)
    assert (first.first, first.last) == (0, 15)
    assert (second.first, second.last) == (16, 19)
    assert lanes(host, 0)['pinned'] == [(14, 2, 'high', 'A')]
    assert lanes(host, 1)['pinned'] == [(0, 2, 'high', 'A')]
    # CPUs 0 and 1 are in no set.
    assert lanes(host, 0)['set'][0] == (2, 2, 'shared', 'shared')


def test_shared_vcpus_of_a_mixed_server_are_in_the_ordinary_lane():
    mixed = contents.guest('m', 'high', range(2), contents.SHARED)
    found = lanes(contents.host(guests=[mixed]))
    assert found['pinned'] == [(0, 2, 'high', 'A')]
    assert found['ordinary'] == [(8, 4, 'ordinary', '~1')]
    assert 'low' not in found


def test_held_and_blocked_cpus_are_marked():
    host = contents.host(
        held=frozenset({5}), blocked=frozenset({7}), guests=[HIGH])
    assert lanes(host)['pinned'] == [
        (0, 4, 'high', 'A'), (5, 1, 'held', '?'), (7, 1, 'blocked', '!')]
    notes = {line.cpus: line.note for line in cpu_map.list_cpus(host)}
    assert notes['0-4,6'] == ''
    assert 'not confirmed' in notes['5']
    assert 'stale CPU set' in notes['7']


def test_titles_name_the_servers():
    host = contents.host(guests=[
        HIGH, LOW, contents.guest('late', is_stopped=True)])
    titles = {box.title for boxes in cpu_map.draw(host)[0].lanes.values()
              for box in boxes}
    assert titles == {
        'CPUs 0-7: in cpu_dedicated_set', 'CPUs 8-11: in cpu_shared_set',
        'CPUs 0-3: db', 'CPUs 0-11: batch, late (stopped)'}


def test_table_tells_who_floats_on_a_cpu():
    web = contents.guest('web', 'ordinary', floating=contents.SHARED)
    dedicated, shared = cpu_map.list_cpus(
        contents.host(guests=[HIGH, LOW, web]))
    assert dedicated == ('0-7', 'dedicated', [(HIGH, '0-3')], [LOW], '')
    assert shared == ('8-11', 'shared', [], [LOW, web], '')


def test_host_without_cpus_has_no_map():
    host = contents.host(dedicated=frozenset(), shared=frozenset())
    assert [] == cpu_map.draw(host) == cpu_map.list_cpus(host)


def test_codes_get_a_second_letter_beyond_52_servers():
    names = list(map(str, range(53)))
    assert list(content.assign_codes(names[:52]).values())[-1] == 'z'
    codes = content.assign_codes(names)
    assert (codes['0'], codes['52']) == ('AA', 'BA')
    assert len(set(codes.values())) == 53
