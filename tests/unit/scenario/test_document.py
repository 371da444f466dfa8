# SPDX-License-Identifier: Apache-2.0

"""Scenario files: the values that are read, and the text of each error."""

import os
import pathlib
import re

import pytest

from nova_prio_scenario import document
from nova_prio_scenario import schema
from nova_prio_scenario import verbs

ROOT = pathlib.Path(__file__).parents[3]

VERBS = ('create, delete, resize, migrate, confirm, revert, live-migrate, '
         'shelve, unshelve, host-down, evacuate, stop, start, reboot, '
         'host-up, host-disable, host-enable, host-drain, host-change')

GOOD = """\
hosts:
  - {name: a, cpus: 12, dedicated: 0-7, shared: 8-11}
flavors:
  - {name: f, vcpus: 4}
steps:
  - create: {name: s, flavor: f}
"""


def problems(text):
    """Return the lines of the error that a text causes."""
    with pytest.raises(document.BadScenario) as caught:
        document.Document(text, 'x.yaml')
    return str(caught.value).splitlines()


def test_document_has_defaults_of_omitted_keys():
    found = document.Document(GOOD, 'x.yaml')
    assert found.hosts == [{
        'name': 'a', 'cpus': 12, 'cells': 1, 'threads': 1,
        'dedicated': '0-7', 'shared': '8-11', 'ratio': None, 'mix': False,
        'memory_mb': 16384, 'driver': 'prio', 'aggregate': {}}]
    assert found.flavors == [{
        'name': 'f', 'vcpus': 4, 'memory_mb': 256, 'disk_gb': 1,
        'extra_specs': {}}]
    step, = found.steps
    assert step.args == {
        'name': 's', 'count': 1, 'multi': False, 'flavor': 'f',
        'image': None, 'hint': None, 'group': None, 'host': None,
        'force': False}
    assert step.expect is None


def test_standard_input_is_read(tmp_path):
    (tmp_path / 'good').write_text(GOOD)
    before = os.dup(0)
    with open(tmp_path / 'good') as stream:
        os.dup2(stream.fileno(), 0)
    try:
        assert len(document.load('-').steps) == 1
        with pytest.raises(document.BadScenario, match='^<stdin>:1: is empty'):
            document.load('-')
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.mark.parametrize('written, value', [
    ('true', 'true'), ('True', 'true'), ('yes', 'true'), ('"yes"', 'yes'),
    ('2.0', '2.0'), ('010', '010'), ('high', 'high')])
def test_metadata_values_remain_as_written(written, value):
    found = document.Document(GOOD.replace(
        '0-7,', '0-7, aggregate: {key: %s},' % written), 'x.yaml')
    assert found.hosts[0]['aggregate'] == {'key': value}


def test_cpu_set_may_be_a_yaml_number():
    found = document.Document(GOOD.replace('8-11', '8'), 'x.yaml')
    assert found.hosts[0]['shared'] == '8'


@pytest.mark.parametrize('old, new, problem', [
    # Rules of single values: line, key, value, what is allowed.
    ('cpus: 12', 'cpus: x',
     "2: key 'hosts[0].cpus': 'x' is not a whole number from 1 to 1024"),
    ('cpus: 12', 'cpus: 12.0',
     "2: key 'hosts[0].cpus': 12.0 is not a whole number from 1 to 1024"),
    ('cpus: 12', 'cpus: true',
     "2: key 'hosts[0].cpus': true is not a whole number from 1 to 1024"),
    ('cpus: 12', 'cpus:  12, ratio: x',
     "2: key 'hosts[0].ratio': 'x' is not a number greater than 0, and up "
     "to 1000"),
    ('cpus: 12', 'cpus: 12, ratio: 0',
     "2: key 'hosts[0].ratio': 0 is not a number greater than 0, and up "
     "to 1000"),
    ('cpus: 12', 'cpus: 12, ratio: .nan',
     "2: key 'hosts[0].ratio': nan is not a number greater than 0, and up "
     "to 1000"),
    ('cpus: 12', 'cpus: 12, mix: maybe',
     "2: key 'hosts[0].mix': 'maybe' is not true or false"),
    ('cpus: 12', 'cpus: 12, driver: fast',
     "2: key 'hosts[0].driver': 'fast' is not one of prio, stock"),
    ('8-11', 'all',
     "2: key 'hosts[0].shared': 'all' is not a CPU set such as \"0-7,^3\""),
    ('cpus: 12', 'cpus: 12, aggregate: x',
     "2: key 'hosts[0].aggregate': 'x' is not a mapping of texts to texts"),
    ('steps:', 'images: [{name: "a b"}]\nsteps:',
     "5: key 'images[0].name': 'a b' is not a name of up to 63 letters, "
     'digits, ".", "_" and "-"'),
    ('flavor: f', 'flavor: f, hint: middle',
     "6: key 'steps[0].create.hint': 'middle' is not one of high, low"),
    ('  - {name: f, vcpus: 4}', '  {}',
     "3: key 'flavors': {} is not a list of flavors"),
    # Keys.
    ('cpus: 12', 'cpus: 12, rato: 2',
     "2: key 'hosts[0].rato': is unknown; allowed: name, cpus, cells, "
     "threads, dedicated, shared, ratio, mix, memory_mb, driver, aggregate"),
    ('flavors:', 'flavours: []\nflavors:',
     "3: key 'flavours': is unknown; allowed: description, hosts, "
     "flavors, images, server_groups, affinity_domains, steps"),
    *(('steps:', 'affinity_domains: %s\nsteps:' % written,
       "5: key 'affinity_domains%s" % problem) for written, problem in (
           ('[]', "': is empty; it must be a list of different keys of "
            'aggregate metadata with host as the last one'),
           ('[a, a, host]', "': ['a', 'a', 'host'] is not a list of different "
            'keys of aggregate metadata with host as the last one'),
           ('[host, rack]', "[1]': the last domain must be host, not "
            "'rack'"),
           ('["a,b", host]', "[0]': 'a,b' is not a key of aggregate "
            'metadata, without comma or space'),
           ("['', host]", "[0]': '' is not a key of aggregate metadata, "
            'without comma or space'))),
    ('steps:', 'images: [{}]\nsteps:',
     "5: key 'images[0].name': is missing; it must be a name of up "
     'to 63 letters, digits, ".", "_" and "-"'),
    ('cpus: 12', 'cpus: 12, cpus: 12', "2: key 'hosts[0].cpus': is given "
     "twice"),
    ('  - create: {name: s, flavor: f}', '  []',
     "5: key 'steps': is empty; it must be a list of steps"),
    # Steps.
    ('create:', 'teleport:',
     "6: key 'steps[0].teleport': is unknown; allowed: %s, expect"
     % VERBS),
    ('create: {name: s, flavor: f}', 'expect: active',
     "6: key 'steps[0]': has no verb; a step must have one of " + VERBS),
    ('flavor: f}', 'flavor: f}\n    delete: {server: s}',
     "6: key 'steps[0]': has create and delete; a step must have one of "
     + VERBS),
    ('flavor: f}', 'flavor: f}\n  - resize: {server: s, flavor: g}',
     "7: key 'steps[1].resize.flavor': 'g' is no known flavor; allowed: f"),
    ('flavor: f}', 'flavor: f}\n  - shelve: {server: t}',
     "7: key 'steps[1].shelve.server': 't' is no known server at this step; "
     "allowed: s"),
    ('flavor: f}', 'flavor: f}\n    expect: deleted',
     "7: key 'steps[0].expect': 'deleted' is not one of active, refused"),
    ('flavor: f}', 'flavor: f}\n  - migrate: {server: s, host: b}',
     "7: key 'steps[1].migrate.host': 'b' is no known host; allowed: a"),
    ('flavor: f}', 'flavor: f}\n  - live-migrate: {server: s, host: b}',
     "7: key 'steps[1].live-migrate.host': 'b' is no known host; allowed: a"),
    ('flavor: f}', 'flavor: f}\n  - evacuate: {server: t}',
     "7: key 'steps[1].evacuate.server': 't' is no known server at this step; "
     "allowed: s"),
    ('flavor: f}', 'flavor: f}\n  - evacuate: {server: s, force: true}',
     "7: key 'steps[1].evacuate.force': is unknown; allowed: server, "
     "host"),
    ('flavor: f}', 'flavor: f}\n  - confirm: {}',
     "7: key 'steps[1].confirm.server': is missing; it must be a name of up "
     'to 63 letters, digits, ".", "_" and "-"'),
    ('flavor: f}',
     'flavor: f}\n  - migrate: {server: s, confirm: false, revert: true}',
     "7: key 'steps[1].migrate.revert': true contradicts confirm: "
     "false"),
    ('flavor: f}', 'flavor: f}\n  - host-down: {host: b}',
     "7: key 'steps[1].host-down.host': 'b' is no known host; allowed: a"),
    ('flavor: f}', 'flavor: f}\n  - host-down: {host: a}'
     '\n  - host-down: {host: a}',
     "8: key 'steps[2].host-down.host': 'a' is already down"),
    ('flavor: f}', 'flavor: f}\n  - host-down: {host: a}'
     '\n  - host-up: {host: a}\n  - host-up: {host: a}',
     "9: key 'steps[3].host-up.host': 'a' is not down at this step"),
    ('flavor: f}', 'flavor: f}\n  - host-up: {host: b}',
     "7: key 'steps[1].host-up.host': 'b' is no known host; allowed: a"),
    ('flavor: f}', 'flavor: f}\n  - host-down: {host: a}'
     '\n    expect: refused',
     "8: key 'steps[1].expect': 'refused' is not one of down"),
    ('flavor: f}', 'flavor: f}\n  - host-change: {host: a}',
     "7: key 'steps[1].host-change.host': 'a' has no change; give one or more "
     'of dedicated, shared, ratio, mix'),
    ('flavor: f}', 'flavor: f}\n  - host-down: {host: a}'
     '\n  - host-change: {host: a, ratio: 2}',
     "8: key 'steps[2].host-change.host': 'a' is down at this step"),
    *(('flavor: f}', 'flavor: f}\n  - host-change: {host: a, %s}' % change,
       "7: key 'steps[1].host-change.%s" % problem) for change, problem in (
           ('shared: 10-12', "shared': '10-12' has CPUs that the host lacks: "
            '12; it has 0-11'),
           ('dedicated: 0,2', "dedicated': YAML ends 0 at the first comma; "
            'quote the value: dedicated: "0,2"'),
           ('cpus: 8', "cpus': is unknown; allowed: host, dedicated, shared, "
            'ratio, mix'),
           ('ratio: 0', "ratio': 0 is not a number greater than 0, and up to "
            '1000'))),
    # CPUs of a host.
    ('cpus: 12', 'cpus: 12, cells: 5',
     "2: key 'hosts[0].cpus': 12 is not a multiple of 5 (cells times "
     "threads)"),
    # Between braces, YAML reads the part after a comma as a key.
    *(('0-7', '0-7,' + more,
       "2: key 'hosts[0].dedicated': YAML ends 0-7 at the first comma; quote "
       'the value: dedicated: "0-7,%s"' % more)
      for more in ('10', '^3,10-11')),
    ('0-7, shared: 8-11', '0, 2, shared: 8-11',
     "2: key 'hosts[0].dedicated': YAML ends 0 at the first comma; quote the "
     'value: dedicated: "0,2"'),
    ('cpus: 12', 'cpus: 12, 20-31',
     "2: key 'hosts[0].20-31': is unknown; allowed: name, cpus, cells, "
     "threads, dedicated, shared, ratio, mix, memory_mb, driver, aggregate"),
    ('8-11', '8-13',
     "2: key 'hosts[0].shared': '8-13' has CPUs that the host lacks: "
     "12-13; it has 0-11"),
    ('8-11', '6-11',
     "2: key 'hosts[0].shared': '6-11' and dedicated '0-7' have CPUs in "
     "common: 6-7"),
    ('8-11', '11-8',
     "2: key 'hosts[0].shared': '11-8' is not a CPU set: range 11-8 ends "
     "before it starts"),
    ('8-11', '^8', "2: key 'hosts[0].shared': '^8' has no CPUs"),
    (', shared: 8-11', ', mix: true',
     "2: key 'hosts[0].mix': true needs both dedicated and shared"),
    ('8-11', '8-11, mix: true, driver: stock',
     "2: key 'hosts[0].mix': true needs the driver 'prio'"),
    # References.
    ('flavor: f', 'flavor: g',
     "6: key 'steps[0].create.flavor': 'g' is no known flavor; allowed: f"),
    ('flavor: f', 'flavor: f, image: i',
     "6: key 'steps[0].create.image': 'i' is no known image; allowed: "
     "default"),
    ('flavor: f', 'flavor: f, group: g',
     "6: key 'steps[0].create.group': 'g' is no known server group; allowed: "
     "none"),
    ('flavor: f', 'flavor: f, host: b',
     "6: key 'steps[0].create.host': 'b' is no known host; allowed: a"),
    ('flavor: f', 'flavor: f, force: true',
     "6: key 'steps[0].create.force': true needs the key host"),
    ('flavor: f}', 'flavor: f}\n  - delete: {server: t}',
     "7: key 'steps[1].delete.server': 't' is no known server at this step; "
     "allowed: s"),
    ('flavor: f}', 'flavor: f}\n  - create: {name: s, flavor: f}',
     "7: key 'steps[1].create.name': 's' is already used"),
    ('  - {name: f, vcpus: 4}',
     '  - {name: f, vcpus: 4}\n  - {name: f, vcpus: 8}',
     "5: key 'flavors[1].name': 'f' is already used"),
])
def test_error_names_line_key_value_and_allowed_values(old, new, problem):
    assert old in GOOD
    assert problems(GOOD.replace(old, new, 1)) == ['x.yaml:' + problem]


def test_host_change_has_the_values_of_a_host():
    found = document.Document(
        GOOD + '  - host-change: {host: a, dedicated: 010, mix: false}\n',
        'x.yaml')
    assert found.steps[1].args == {
        'host': 'a', 'dedicated': '010', 'shared': None, 'ratio': None,
        'mix': False}
    stock = GOOD.replace('shared', 'driver: stock, shared')
    assert problems(stock + '  - host-change: {host: a, mix: true}\n') == [
        "x.yaml:7: key 'steps[1].host-change.mix': true needs the driver "
        "'prio'"]


def test_all_errors_are_listed_in_the_order_of_the_file():
    found = problems(GOOD.replace('cpus: 12', 'cpus: 0')
                     .replace('vcpus: 4', 'vcpu: 4')
                     .replace('flavor: f', 'flavor: g'))
    assert [line.split("'")[1] for line in found] == [
        'hosts[0].cpus', 'flavors[0].vcpu', 'flavors[0].vcpus',
        'steps[0].create.flavor']


def test_servers_of_one_create_are_numbered():
    two = GOOD.replace('flavor: f', 'flavor: f, count: 2')
    found = document.Document(
        two + '  - delete: {server: s-2}\n', 'x.yaml')
    assert [step.title for step in found.steps] == [
        'create s-1 to s-2 (f)', 'delete s-2']
    assert problems(two + '  - delete: {server: s}\n') == [
        "x.yaml:7: key 'steps[1].delete.server': 's' is no known server "
        "at this step; allowed: s-1, s-2"]


def test_name_of_a_deleted_server_can_be_used_again():
    document.Document(
        GOOD + '  - delete: {server: s}\n  - create: {name: s, flavor: f}\n',
        'x.yaml')


@pytest.mark.parametrize('text, problem', [
    ('', 'x.yaml:1: is empty'),
    ('# nothing\n', 'x.yaml:1: is empty'),
    ('hosts:\n  - [\n',
     "x.yaml:3: is not YAML: expected the node content, but found "
     "'<stream end>'"),
    ('hosts: *a\n', "x.yaml:1: is not YAML: found undefined alias 'a'"),
    ('hosts: &a [*a]\n', 'x.yaml:1: contains itself'),
    ('a\0b', 'x.yaml:1: is not YAML: unacceptable character #x0000: special '
     'characters are not allowed'),
    ('- a\n', "x.yaml:1: ['a'] is not a mapping with the keys description, "
     'hosts, flavors, images, server_groups, affinity_domains, steps'),
])
def test_file_without_a_mapping_is_refused(text, problem):
    assert problems(text) == [problem]


def test_unreadable_files_are_reported(tmp_path):
    missing = tmp_path / 'none.yaml'
    binary = tmp_path / 'binary.yaml'
    binary.write_bytes(b'\xff\xfe')
    for path, problem in [
            (missing, '%s: cannot be read: No such file or directory'),
            (tmp_path, '%s: cannot be read: Is a directory'),
            (binary, '%s: is not UTF-8 text: invalid start byte')]:
        with pytest.raises(document.BadScenario) as caught:
            document.load(str(path))
        assert str(caught.value) == problem % path


def test_describe_names_file_line_and_key():
    found = document.Document(GOOD, 'x.yaml')
    assert found.describe(('flavors', 0), 'is refused') == (
        "x.yaml:4: key 'flavors[0]': is refused")


@pytest.mark.parametrize(
    'path', sorted((ROOT / 'examples').glob('*.yaml')), ids=str)
def test_examples_are_valid_and_expect_outcomes(path):
    found = document.load(str(path))
    assert found.description
    assert {'active', 'refused'} <= {step.expect for step in found.steps}


def test_documentation_names_every_key():
    page = (ROOT / 'doc' / 'source' / 'user' / 'scenario.rst').read_text()
    keys = set(document.RULE['properties'])
    for rules in (schema.HOST, schema.FLAVOR, schema.IMAGE,
                  schema.SERVER_GROUP, verbs.VERBS,
                  *(verb.properties for verb in verbs.VERBS.values())):
        keys.update(rules)
    assert keys <= set(re.findall(r'``([\w-]+)``', page))
