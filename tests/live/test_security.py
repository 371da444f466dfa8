# SPDX-License-Identifier: Apache-2.0


"""Users of a project cannot get a priority that operators reserve."""

import contextlib
import xml.etree.ElementTree

import pytest
import tenacity
import yaml

from tests.libvirt import boot_sector
from tests.live import client
from tests.live import tenant

RULE = 'nova_prio:create:hint:'
BLOCKS = tenant.BLOCKS
#: Flavor name -> (extra specs, whether the flavor is public).
FLAVORS = {'plain': ({}, True), 'larger': ({}, True),
           'reserved': ({'hw:cpu_priority': 'high'}, False),
           'high': ({'hw:cpu_priority': 'high'}, True)}


@pytest.fixture(scope='module')
def users(layout):
    """Dict, role -> connection of a user with this role."""
    with tenant.tenant(layout) as found:
        yield found


@pytest.fixture(scope='module')
def offered(admin, hosts):
    """Dict, name -> flavor, on hosts that accept priorities."""
    compute = admin.compute
    found = {}
    for number, (name, (specs, is_public)) in enumerate(FLAVORS.items(), 1):
        found[name] = compute.create_flavor(
            name='offered-' + name, vcpus=number, ram=64, disk=1,
            is_public=is_public)
        compute.create_flavor_extra_specs(found[name], specs)
    yield found
    for flavor in found.values():
        compute.delete_flavor(flavor)


@pytest.fixture(scope='module')
def post_server(offered, image):
    """Function that requests a server and returns the response."""
    def post(connection, flavor='plain', image=image, more=(), **body):
        return connection.compute.post('/servers', json={'server': {
            'name': 'mine', 'flavorRef': offered[flavor].id,
            'imageRef': image.id, 'networks': 'none', **dict(more)}, **body})
    return post


@pytest.fixture(scope='module')
def boot(post_server):
    """Function that returns a context with a server.

    The arguments are those of ``post_server``.
    """
    @contextlib.contextmanager
    def booted(connection, *args, **body):
        response = post_server(connection, *args, **body)
        assert 202 == response.status_code, response.text
        compute = connection.compute
        server = compute.wait_for_server(
            compute.get_server(response.json()['server']['id']), wait=300)
        try:
            yield server
        finally:
            compute.delete_server(server)
            compute.wait_for_delete(server, wait=300)
    return booted


@pytest.fixture(scope='module')
def ordinary(users, boot):
    """An ordinary server of the member."""
    with boot(users['member']) as server:
        yield server


@pytest.fixture(scope='module')
def low(users, boot):
    """A server of the member with the hint ``priority=low``."""
    with boot(users['member'], **{BLOCKS[0]: {'priority': 'low'}}) as server:
        yield server


@pytest.fixture
def act(users):
    """Function that requests an action as the member; returns the response."""
    def post(server, **body):
        return users['member'].compute.post(
            '/servers/%s/action' % server.id, json=body)
    return post


@pytest.fixture
def rules(layout):
    """Function that writes policy rules into the file of the operator."""
    file = layout.etc / 'nova' / 'policy.yaml'

    def write(**found):
        file.write_text(yaml.safe_dump(found))

    yield write
    # Nova requires the file once it has read it.
    write()


@pytest.fixture
def in_force(layout, admin):
    """Function that returns priority and partition of a server."""
    def read(server):
        found = admin.compute.get_server(server.id)
        domain = xml.etree.ElementTree.fromstring(client.virsh(
            layout, found.compute_host, 'dumpxml', server.id))
        return (found.flavor.extra_specs.get('hw:cpu_priority'),
                domain.findtext('resource/partition'))
    return read


ORDINARY = None, '/machine'
LOW = 'low', '/low_prio_machine'
HIGH = 'high', '/high_prio_machine'


@pytest.mark.parametrize('block', BLOCKS)
@pytest.mark.parametrize('count', [1, 2])
@pytest.mark.parametrize('role', tenant.ROLES)
def test_hint_high_needs_the_administrator(
        users, post_server, role, count, block):
    response = post_server(users[role], more={'min_count': count}, **{
        block: {'priority': 'high'}})
    assert 403 == response.status_code
    if role != 'reader':
        assert RULE + 'high' in response.json()['forbidden']['message']
    assert [] == list(users[role].compute.servers(name='mine'))


@pytest.mark.parametrize('block', BLOCKS)
def test_oldest_microversion_has_the_same_rules(users, offered, image, block):
    response = users['member'].compute.post(
        '/servers', microversion='2.1', json={'server': {
            'name': 'mine', 'flavorRef': offered['plain'].id,
            'imageRef': image.id}, block: {'priority': 'high'}})
    assert 403 == response.status_code
    assert RULE + 'high' in response.json()['forbidden']['message']


def test_reader_cannot_use_hint_low(users, post_server):
    assert 403 == post_server(users['reader'], **{
        BLOCKS[0]: {'priority': 'low'}}).status_code


@pytest.mark.parametrize('role', ['member', 'manager'])
def test_members_can_use_hint_low(users, boot, in_force, role):
    with boot(users[role], **{BLOCKS[0]: {'priority': 'low'}}) as server:
        assert LOW == in_force(server)


def test_second_dict_of_hints_is_ignored(users, post_server, boot, in_force):
    both = {BLOCKS[0]: {'priority': 'low'}, BLOCKS[1]: {'priority': 'high'}}
    with boot(users['member'], **both) as server:
        assert LOW == in_force(server)
    response = post_server(users['member'], **{
        BLOCKS[0]: {'priority': 'high'}, BLOCKS[1]: {'priority': 'low'}})
    assert 403 == response.status_code
    assert RULE + 'high' in response.json()['forbidden']['message']


@pytest.mark.parametrize('expected', [HIGH, LOW])
def test_operator_can_restrict_hint_to_a_role(
        users, rules, boot, post_server, in_force, expected):
    priority, _ = expected
    hint = {BLOCKS[0]: {'priority': priority}}
    rules(**{RULE + priority: 'role:manager'})
    with boot(users['manager'], **hint) as server:
        assert expected == in_force(server)
    response = post_server(users['member'], **hint)
    assert 403 == response.status_code
    assert RULE + priority in response.json()['forbidden']['message']
    rules()
    assert 403 == post_server(users['manager'], **{
        BLOCKS[0]: {'priority': 'high'}}).status_code


def test_private_flavor_cannot_be_used(
        users, post_server, act, offered, ordinary):
    compute = users['member'].compute
    reserved = offered['reserved'].id
    assert 404 == compute.get('/flavors/' + reserved).status_code
    assert reserved not in {flavor.id for flavor in compute.flavors()}
    assert 400 == post_server(users['member'], 'reserved').status_code
    assert act(ordinary, resize={
        'flavorRef': reserved}).status_code in (400, 404)


@pytest.mark.parametrize('role', tenant.ROLES)
@pytest.mark.parametrize('method, path, body', [
    ('POST', '/flavors', {'flavor': {
        'name': 'own', 'vcpus': 1, 'ram': 64, 'disk': 1}}),
    ('POST', '/flavors/%(plain)s/os-extra_specs',
     {'extra_specs': {'hw:cpu_priority': 'high'}}),
    ('PUT', '/flavors/%(plain)s/os-extra_specs/hw:cpu_priority',
     {'hw:cpu_priority': 'high'})])
def test_users_cannot_change_flavors(
        users, offered, role, method, path, body):
    assert 403 == users[role].compute.request(
        path % {name: flavor.id for name, flavor in offered.items()}, method,
        json=body).status_code


@pytest.mark.parametrize('role', tenant.ROLES)
def test_users_cannot_give_themselves_access_to_a_flavor(
        users, offered, role):
    # Nova answers 404 if the user cannot see the flavor.
    assert users[role].compute.post(
        '/flavors/%s/action' % offered['reserved'].id, json={
            'addTenantAccess': {'tenant': users[role].current_project_id}}
        ).status_code in (403, 404)


@pytest.mark.parametrize('action', [
    {'resize': {'flavorRef': '%(larger)s'}},
    {'rebuild': {'imageRef': '%(image)s'}}, {'unshelve': {}},
    {'reboot': {'type': 'HARD'}}])
def test_actions_refuse_hints(
        admin, act, offered, image, ordinary, action):
    (name, body), = action.items()
    body = {key: value % {'image': image.id, 'larger': offered['larger'].id}
            for key, value in body.items()}

    def count_actions():
        return len(list(admin.compute.server_actions(ordinary)))

    before = count_actions()
    for block in BLOCKS:
        hint = {block: {'priority': 'high'}}
        for request, reason in (
                ({name: body, **hint}, 'Malformed request body'),
                ({name: {**body, **hint}}, block)):
            response = act(ordinary, **request)
            assert 400 == response.status_code
            assert reason in response.json()['badRequest']['message']
    assert before == count_actions()


def test_resize_cannot_raise_hint_low_to_high(act, offered, low, in_force):
    response = act(low, resize={'flavorRef': offered['high'].id})
    assert 400 == response.status_code
    assert 'hw:cpu_priority' in response.json()['badRequest']['message']
    assert LOW == in_force(low)


def test_metadata_tags_and_images_give_no_priority(
        users, admin, ordinary, own_image, in_force):
    compute = users['member'].compute
    mine = {'hw:cpu_priority': 'high', 'priority': 'high',
            'hw_cpu_priority': 'high'}
    compute.set_server_metadata(ordinary, **mine)
    compute.put('/servers/%s/tags/priority=high' % ordinary.id
                ).raise_for_status()
    with own_image(**mine) as image:
        compute.rebuild_server(ordinary, image)
        wait_for_rebuild(admin, ordinary, image)
    assert ORDINARY == in_force(ordinary)


def wait_for_rebuild(admin, server, image):
    """Wait until a server runs from an image."""
    for attempt in tenacity.Retrying(stop=tenacity.stop_after_delay(300),
                                     wait=tenacity.wait_fixed(1)):
        with attempt:
            found = admin.compute.get_server(server.id)
            assert ('ACTIVE', None, image.id) == (
                found.status, found.task_state, found.image.id)


@pytest.fixture(scope='module')
def own_image(users, tmp_path_factory):
    """Function that returns a context with an image of the member."""
    file = boot_sector.build(
        boot_sector.IDLE, tmp_path_factory.mktemp('image'))

    @contextlib.contextmanager
    def uploaded(**properties):
        found = users['member'].create_image(
            'own', filename=str(file), disk_format='raw', wait=True,
            container_format='bare', allow_duplicates=True, meta=properties)
        try:
            yield found
        finally:
            users['member'].image.delete_image(found)
    return uploaded


@pytest.mark.parametrize('properties', [
    {'hw_cpu_priority': 'high', 'hw:cpu_priority': 'high'},
    {'trait:CUSTOM_CPU_PRIORITY': 'required'},
    # As in stock Nova, this pins the instance and gives no priority.
    {'hw_cpu_policy': 'dedicated'}])
def test_image_properties_give_no_priority(
        users, boot, own_image, in_force, properties):
    with own_image(**properties) as image:
        with boot(users['member'], image=image) as server:
            assert ORDINARY == in_force(server)


def test_create_refuses_pinning_image_with_hint_low(
        users, post_server, own_image):
    with own_image(hw_cpu_policy='dedicated') as image:
        response = post_server(users['member'], image=image,
                               **{BLOCKS[0]: {'priority': 'low'}})
    assert 400 == response.status_code
    assert 'hw_cpu_policy' in response.json()['badRequest']['message']


@pytest.mark.parametrize('name, expected, reason', [
    # Stock Nova refuses a rebuild that changes the NUMA topology.
    ('ordinary', ORDINARY, 'NUMA'), ('low', LOW, 'hw_cpu_policy')])
def test_rebuild_refuses_pinning_image(
        request, act, own_image, in_force, name, expected, reason):
    server = request.getfixturevalue(name)
    with own_image(hw_cpu_policy='dedicated') as image:
        response = act(server, rebuild={'imageRef': image.id})
    assert 400 == response.status_code
    assert reason in response.json()['badRequest']['message']
    assert expected == in_force(server)


def test_snapshot_of_high_server_gives_no_priority(users, boot, in_force):
    member = users['member']
    with boot(member, 'high') as server:
        assert HIGH == in_force(server)
        image = member.compute.create_server_image(
            server, 'snapshot', wait=True, timeout=300)
    try:
        with boot(member, image=image) as server:
            assert ORDINARY == in_force(server)
    finally:
        member.image.delete_image(image)
