# SPDX-License-Identifier: Apache-2.0


"""Nova refuses hostile hints, extra specs and images with 400.

Their text must not break a log line or the domain XML. The tests do not judge
answers and log lines of stock Nova.
"""

import json
import xml.etree.ElementTree

import pytest

from tests.libvirt import boot_sector
from tests.live import client
from tests.live import logs
from tests.live import tenant

BLOCKS = tenant.BLOCKS
#: If a service logs a hostile text unescaped, a log line begins with MARK.
MARK = 'nova_prio_hostile'
LINE = 'high\n' + MARK
#: Maximum number of characters of an answer or a log line.
LENGTH = 1000
#: Depths of nested lists. If Python cannot recurse as deep, stock Nova answers
#: with 500.
DEEP, TOO_DEEP = 800, 50000


def nested(depth):
    """Return lists that are nested this deep."""
    return json.loads('[' * depth + ']' * depth)


HINTS = {
    'line feed': LINE, 'carriage return': 'high\r' + MARK,
    'line separator': 'high\u2028' + MARK, 'next line': 'high\x85' + MARK,
    'terminal': '\x1b[2J\x1b]0;' + MARK, 'zero': 'high\0',
    'bell and back': 'low\b\b\bhigh\a', 'right to left': '\u202ehgih',
    'half a surrogate': 'high\ud800', 'wide': '\uff48\uff49\uff47\uff48',
    'XML': '</nova:extraSpec><resource><partition>/high_prio_machine',
    'entity': '&xxe;<!DOCTYPE x [<!ENTITY xxe SYSTEM "file:///etc/passwd">]>',
    'end of CDATA': ']]>', 'percent': '%s%n%(message)s%%',
    'braces': '{0.__class__.__mro__}', 'template': '$priority',
    'SQL': "high'; DROP TABLE instances; --", 'path': '../../etc/passwd',
    'huge': 'A' * 100000, 'many': ['A'] * 20000, 'deep': nested(DEEP),
    'wide and deep': {LINE: [{LINE: LINE}] * 100},
    'null': None, 'true': True, 'number': 1, 'minus': -1, 'large': 10 ** 4000,
    'float': 1e308, 'nothing': '', 'space': 'high ', 'case': 'HIGH',
    'no element': [], 'two': ['high', 'low'], 'twice': ['high', 'high'],
    'list in list': [['high']], 'dict': {'high': 'high'}, 'in list': [LINE]}


@pytest.fixture(scope='module')
def member(layout):
    """The connection of a user of a project."""
    with tenant.tenant(layout) as users:
        yield users['member']


@pytest.fixture(scope='module')
def flavor(admin, hosts):
    """A flavor without extra specs, on hosts that accept priorities."""
    found = admin.compute.create_flavor(
        name='hostile-plain', vcpus=1, ram=64, disk=1)
    yield found
    admin.compute.delete_flavor(found)


@pytest.fixture
def extra_specs(admin):
    """Function that creates a flavor with extra specs, as an old client does.

    From microversion 2.86 on, Nova would refuse most of these extra specs.
    """
    flavors = []

    def make(specs):
        found = admin.compute.create_flavor(
            name='hostile', vcpus=2, ram=64, disk=1)
        flavors.append(found)
        admin.compute.post(
            '/flavors/%s/os-extra_specs' % found.id, microversion='2.85',
            json={'extra_specs': specs}).raise_for_status()
        return found

    yield make
    for found in flavors:
        admin.compute.delete_flavor(found)


@pytest.fixture
def written(layout):
    """The lines that Nova's services log during a test."""
    return logs.NewLines(layout)


@pytest.fixture
def refused(written):
    """Function that checks for a short 400 and for harmless log lines."""
    def check(response):
        assert 400 == response.status_code, response.text[:LENGTH]
        assert len(response.text) < LENGTH
        message = response.json()['badRequest']['message']
        assert message.isprintable()
        lines = written.lines()
        # The message is in the log, so an unescaped text would be there too.
        assert any(line.endswith(message) for line in lines)
        check_harmless(lines)
        return message
    return check


def check_harmless(lines):
    """Assert that log lines are printable, short and without a traceback."""
    for line in lines:
        assert not line.startswith(MARK)
        assert line.isprintable()
        assert len(line) < LENGTH
        assert 'Traceback' not in line


def post_server(connection, flavor, image, name='hostile', **body):
    return connection.compute.post('/servers', json={'server': {
        'name': name, 'flavorRef': flavor.id, 'imageRef': image.id,
        'networks': 'none'}, **body})


@pytest.mark.parametrize('block', BLOCKS)
@pytest.mark.parametrize('name', HINTS)
def test_hostile_hint_is_refused(member, flavor, image, refused, name, block):
    assert "Scheduler hint 'priority' is" in refused(post_server(
        member, flavor, image, **{block: {'priority': HINTS[name]}}))


@pytest.mark.parametrize('block', BLOCKS)
@pytest.mark.parametrize('hints', [
    None, 'priority', ['priority'], 1, LINE, [LINE], 'A' * 100000])
def test_hints_of_wrong_type_are_refused(
        member, flavor, image, written, block, hints):
    """Nova refuses these values with a fault, and writes no log line."""
    response = post_server(member, flavor, image, **{block: hints})
    assert 400 == response.status_code
    assert block in response.json()['badRequest']['message']
    check_harmless(written.lines())


def test_request_of_a_megabyte_is_refused(member, flavor, image, written):
    response = post_server(
        member, flavor, image, **{BLOCKS[0]: {'priority': 'A' * 10 ** 6}})
    assert 413 == response.status_code
    assert max(map(len, written.lines())) < LENGTH


def test_stock_error_for_too_deep_request_is_harmless(member, written):
    check_failed(member.compute.post(
        '/servers', headers={'Content-Type': 'application/json'},
        data='{"%s": {"priority": %s"%s"%s}}' % (
            BLOCKS[0], '[' * TOO_DEEP, MARK, ']' * TOO_DEEP)),
        written.lines(), 'RecursionError')


def test_stock_error_for_nested_hint_of_other_name_is_harmless(
        member, flavor, image, written):
    check_failed(post_server(
        member, flavor, image, **{BLOCKS[0]: {'note': [{LINE: LINE}]}}),
        written.lines(), 'ValueError')


def check_failed(response, lines, error):
    """Assert that stock Nova failed and did not repeat the request."""
    assert 500 == response.status_code
    assert MARK not in response.text
    assert len(response.text) < LENGTH
    assert any(error in line for line in lines)
    for line in lines:
        assert MARK not in line
        assert line.isprintable()
        assert len(line) < LENGTH


@pytest.mark.parametrize('hints', [
    {'Priority': 'high'}, {'priority ': 'high'}, {' priority': 'high'},
    {'priority\0': 'high'}, {'hw:cpu_priority': 'high'}, {'note': LINE},
    {LINE: 'high'}, {'note': 'A' * 50000}])
def test_hints_of_other_names_give_no_priority(
        admin, member, flavor, image, written, hints):
    response = post_server(member, flavor, image, **{BLOCKS[0]: hints})
    assert 202 == response.status_code
    server = admin.compute.get_server(response.json()['server']['id'])
    member.compute.delete_server(server)
    member.compute.wait_for_delete(server, wait=300)
    assert {} == server.flavor.extra_specs
    lines = written.lines()
    assert any(server.id in line for line in lines)
    check_harmless(lines)


@pytest.mark.parametrize('specs, hint', [
    ({'hw:cpu_priority': LINE}, None),
    ({'hw:cpu_priority': 'A' * 255}, 'low'),
    ({'hw:cpu_priority': '<low/>&'}, None),
    ({'hw:cpu_priority': '\x1b[2J'}, None),
    ({'hw:cpu_priority': '\u202ehgih'}, None),
    ({'hw:cpu_priority': '\uff48\uff49\uff47\uff48'}, None),
    ({'hw:cpu_priority': 'high\0'}, None),
    ({'hw:cpu_priority': ''}, None),
    ({'hw:cpu_priority': 1}, None),
    ({'hw:cpu_priority': 'low', 'hw:cpu_policy': LINE}, None),
    ({'hw:cpu_policy': LINE}, 'low'),
    ({'resources:PCPU': LINE}, 'high'),
    ({'resources:PCPU': '\u0661'}, 'high'),
    ({'resources:VCPU': LINE}, 'low'),
    ({'resources:PCPU': '1', 'resources:VCPU': LINE}, None),
    ({'resources:PCPU': '9' * 255, 'resources:VCPU': '1'}, None),
    ({'resources:PCPU': '1', 'resources:VCPU': '1',
      'hw:cpu_dedicated_mask': LINE}, None)])
def test_server_with_hostile_extra_specs_is_refused(
        admin, extra_specs, image, refused, specs, hint):
    refused(post_server(admin, extra_specs(specs), image, **(
        {BLOCKS[0]: {'priority': hint}} if hint else {})))


@pytest.mark.parametrize('value', [
    LINE, 'A' * 255, '<low/>&', '\x1b[2J', '\uff48\uff49\uff47\uff48',
    '\u202ehgih', 'high\ud800', 'high\0', '', 1, 1.5])
def test_validated_extra_spec_is_refused(admin, flavor, written, value):
    """Nova validates extra specs from microversion 2.86 on."""
    response = admin.compute.post(
        '/flavors/%s/os-extra_specs' % flavor.id, microversion='2.86',
        json={'extra_specs': {'hw:cpu_priority': value}})
    assert (400, "Validation failed; '%s' is not one of: high, low." % value
            ) == (response.status_code,
                  response.json()['badRequest']['message'])
    check_harmless(written.lines())


@pytest.mark.parametrize('microversion', ['2.85', '2.86'])
@pytest.mark.parametrize('value', [
    {LINE: LINE}, [LINE], nested(DEEP), None, True, 'A' * 256, 'A' * 100000])
def test_extra_spec_of_wrong_type_or_length_is_refused(
        admin, flavor, written, value, microversion):
    response = admin.compute.post(
        '/flavors/%s/os-extra_specs' % flavor.id, microversion=microversion,
        json={'extra_specs': {'hw:cpu_priority': value}})
    assert 400 == response.status_code
    assert 'hw:cpu_priority' in response.json()['badRequest']['message']
    check_harmless(written.lines())


@pytest.mark.parametrize('value', [LINE, 'x' * 60000, '\x1b[2J'])
def test_image_with_hostile_property_is_refused(
        member, flavor, refused, value, tmp_path):
    """Users of any project may write any property into an image."""
    image = member.create_image(
        'own', filename=str(boot_sector.build(boot_sector.IDLE, tmp_path)),
        disk_format='raw', container_format='bare', allow_duplicates=True,
        wait=True, meta={'hw_cpu_policy': value})
    response = post_server(
        member, flavor, image, **{BLOCKS[0]: {'priority': 'low'}})
    member.image.delete_image(image)
    assert 'hw_cpu_policy' in refused(response)


def test_hostile_text_does_not_change_domain_xml(
        layout, admin, extra_specs, image, written):
    """The name and the extra specs appear in the metadata of the XML."""
    hostile = ']]></nova:name><resource>&amp;"\'\u2603'
    flavor = extra_specs({
        'hw:cpu_priority': 'low', 'note': hostile, 'a:b c': hostile,
        'line': LINE})
    response = post_server(admin, flavor, image, hostile)
    compute = admin.compute
    server = compute.wait_for_server(
        compute.get_server(response.json()['server']['id']), wait=300)
    domain = xml.etree.ElementTree.fromstring(client.virsh(
        layout, server.compute_host, 'dumpxml', server.id))
    compute.delete_server(server)
    compute.wait_for_delete(server, wait=300)
    assert ['/low_prio_machine'] == [
        element.text for element in domain.iter('partition')]
    texts = [element.text for element in domain.iter()]
    assert (3, 1) == (texts.count(hostile), texts.count(LINE))
    lines = written.lines()
    assert any(server.id in line for line in lines)
    check_harmless(lines)
