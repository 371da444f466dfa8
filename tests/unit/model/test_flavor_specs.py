# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st
from nova import objects
from nova.scheduler import utils
from nova.virt import hardware
import pytest

from nova_prio.api import priority_fold
from nova_prio.model import flavor_specs

objects.register_all()


@pytest.mark.parametrize('extra_specs, hints, folded', [
    # No priority.
    ({}, None, None),
    ({}, {}, None),
    ({'hw:cpu_policy': 'dedicated'}, {'group': 'x'}, None),
    # By extra spec, by hint, and by a hint in a list.
    ({'hw:cpu_priority': 'high'}, None,
     {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}),
    ({'hw:cpu_priority': 'low'}, {},
     {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}),
    ({}, {'priority': 'high'},
     {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated',
      'nova_prio:source': 'hint'}),
    ({}, {'priority': ['low']},
     {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared',
      'nova_prio:source': 'hint'}),
    # A flavor cannot pretend that the priority came with the hint.
    ({'hw:cpu_priority': 'low', 'nova_prio:source': 'hint'}, {},
     {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}),
    # An explicit policy or request for PCPU stays.
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed'}, {},
     {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed'}),
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '4'}, {},
     {'hw:cpu_priority': 'high', 'resources:PCPU': '4'}),
    ({'hw:cpu_priority': 'high', 'resources1:PCPU': '4'}, {},
     {'hw:cpu_priority': 'high', 'resources1:PCPU': '4'}),
    ({'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}, {},
     {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}),
    # A request for as many VCPU as vCPUs is the shared policy.
    ({'hw:cpu_priority': 'low', 'resources:VCPU': '4'}, {},
     {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}),
    # A request for 0 leaves all vCPUs to the other class.
    ({'hw:cpu_priority': 'low', 'resources:VCPU': '4', 'resources:PCPU': '0'},
     {}, {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}),
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '4',
      'resources:VCPU': '0'}, {},
     {'hw:cpu_priority': 'high', 'resources:PCPU': '4',
      'resources:VCPU': '0'}),
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '3',
      'resources:VCPU': '1'}, {},
     {'hw:cpu_priority': 'high', 'resources:PCPU': '3',
      'resources:VCPU': '1'}),
    ({'hw:cpu_priority': 'low', 'hw:cpu_realtime': 'no'}, {},
     {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared',
      'hw:cpu_realtime': 'no'}),
])
def test_fold_writes_priority_and_cpu_policy(extra_specs, hints, folded):
    before = dict(extra_specs)
    assert folded == priority_fold.fold(4, extra_specs, hints)
    assert before == extra_specs


@pytest.mark.parametrize('extra_specs, vcpu', [
    ({}, 4),
    ({'resources:PCPU': '8', 'resources:MEMORY_MB': '8'}, 4),
    ({'resources:VCPU': '0'}, 0),
    ({'resources:VCPU': '1', 'resources2:VCPU': '2'}, 3),
    ({'resources:VCPU': '1', 'resources_A:VCPU': '2'}, 3),
    ({'resources:VCPU': 'some'}, 4),
])
def test_amount_that_placement_allocates(extra_specs, vcpu):
    assert vcpu == flavor_specs.get_placement_amount(extra_specs, 'VCPU', 4)


CLASSES = ('PCPU', 'VCPU', 'MEMORY_MB')
KEYS = st.one_of(
    st.text(max_size=20),
    # Resource requests, and keys that are almost resource requests.
    st.builds('{}{}:{}{}'.format,
              st.sampled_from(['resources', 'Resources', ' resources', 'res']),
              st.one_of(
                  st.sampled_from(['', '0', '01', '1', '1' * 64, '1' * 65,
                                   'A', '_A', '-', 'a' * 64, 'a' * 65, '\n']),
                  st.text('aZ09_-', max_size=70),
                  st.text(max_size=3)),
              st.sampled_from([*CLASSES, 'DISK_GB', 'pcpu', 'PCPU:VCPU', '']),
              st.sampled_from(['', '', '', '\n', '\n\n', 'X', ' '])))
AMOUNT = 977


def flavor(**attributes):
    return objects.Flavor(vcpus=4, memory_mb=8, root_gb=0, ephemeral_gb=0,
                          swap=0, **attributes)


def request_by_nova(extra_specs):
    """Return the resources that Nova asks Placement for: dict."""
    return utils.ResourceRequest.from_request_spec(objects.RequestSpec(
        flavor=flavor(extra_specs=extra_specs), is_bfv=False,
        requested_resources=[])).merged_resources()


@hypothesis.given(KEYS)
@hypothesis.settings(max_examples=1000)
def test_requests_are_selected_as_nova_does(key):
    extra_specs = {key: str(AMOUNT)}
    request = utils.ResourceRequest()
    request._process_extra_specs(flavor(extra_specs=extra_specs))
    placement = request.merged_resources()
    for name in CLASSES:
        assert (placement.get(name) == AMOUNT) == bool(
            flavor_specs.select_placement_requests(extra_specs, name))
    vcpu, pcpu = hardware._get_vcpu_pcpu_resources(
        flavor(extra_specs=extra_specs))
    assert (vcpu, pcpu) == tuple(
        flavor_specs.sum_amounts(
            flavor_specs.select_pinning_requests(extra_specs, name))
        for name in ('VCPU', 'PCPU'))
    assert bool(flavor_specs.find_misread_requests(extra_specs)) == (
        (pcpu, vcpu) != (placement.get('PCPU', 0),
                         placement.get('VCPU', 0)))


@hypothesis.given(st.dictionaries(
    st.builds('resources{}:{}'.format, st.sampled_from(['', '1', '2', '_A']),
              st.sampled_from(['VCPU', 'MEMORY_MB'])),
    st.sampled_from(['0', '1', '7', '-1', 'some', ''])))
def test_amounts_are_summed_as_nova_does(extra_specs):
    requested = request_by_nova(extra_specs)
    for name, amount in (('VCPU', 4), ('MEMORY_MB', 8)):
        assert requested.get(name, 0) == flavor_specs.get_placement_amount(
            extra_specs, name, amount)


@pytest.mark.parametrize('extra_specs, hints, words', [
    ({'hw:cpu_priority': 'urgent'}, {}, ["hw:cpu_priority", "'urgent'"]),
    ({}, {'priority': 'urgent'}, ["'priority'", "'urgent'"]),
    ({}, {'priority': ['high', 'low']}, ["'priority'", "['high', 'low']"]),
    ({}, {'priority': []}, ["'priority'", '[]']),
    ({}, {'priority': 1}, ["'priority'", '1']),
    ({}, {'priority': None}, ["'priority'", 'None']),
    ({}, {'priority': {'high': 1}}, ["'priority'"]),
    ({'hw:cpu_priority': 'high'}, {'priority': 'high'},
     ['already gives high', 'drop the hint']),
    ({'hw:cpu_priority': 'high'}, {'priority': 'low'},
     ["'priority'", "'low'", 'hw:cpu_priority', "'high'"]),
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'shared'}, {},
     ['hw:cpu_policy', "'shared'", "'dedicated', 'mixed'"]),
    ({'hw:cpu_priority': 'high', 'resources:VCPU': '4'}, {},
     ['resources:VCPU', "'4'", 'resources:PCPU']),
    ({'hw:cpu_priority': 'low', 'hw:cpu_policy': 'dedicated'}, {},
     ['hw:cpu_policy', "'dedicated'", "'shared'"]),
    ({'hw:cpu_priority': 'low', 'hw:cpu_policy': 'mixed'}, {},
     ['hw:cpu_policy', "'mixed'", "'shared'"]),
    ({'hw:cpu_priority': 'low', 'hw:cpu_realtime': 'yes'}, {},
     ['hw:cpu_realtime', "'yes'"]),
    ({'hw:cpu_priority': 'low', 'hw:emulator_threads_policy': 'isolate'}, {},
     ['hw:emulator_threads_policy', "'isolate'", "'share'"]),
    ({'hw:cpu_priority': 'low', 'resources:PCPU': '4'}, {},
     ['resources:PCPU', "'4'", 'resources:VCPU']),
    ({'hw:cpu_priority': 'low', 'resources:VCPU': '3'}, {},
     ['resources:VCPU', "'3'", "resources:VCPU = '4'"]),
    ({'hw:cpu_priority': 'low', 'resources1:VCPU': '4'}, {},
     ['resources1:VCPU', "'4'", "resources:VCPU = '4'"]),
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '0',
      'resources:VCPU': '4'}, {},
     ['resources:VCPU', "'4'", 'resources:PCPU']),
    ({'hw:cpu_priority': 'low', 'resources:PCPU': '3',
      'resources:VCPU': '1'}, {},
     ['resources:PCPU', "'3'", "resources:VCPU = '4'"]),
    # Nova asks Placement for the CPUs of a named group, but does not read the
    # group when it decides on pinning.
    ({'hw:cpu_priority': 'high', 'resources_A:PCPU': '4'}, {},
     ['resources_A:PCPU', "'4'", 'resources:PCPU']),
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated',
      'resourcesA:VCPU': '4'}, {},
     ['resourcesA:VCPU', "'4'", 'resources:PCPU']),
    ({'resources01:PCPU': '4'}, {'priority': 'high'},
     ['resources01:PCPU', "'4'", 'resources:PCPU']),
    ({'hw:cpu_priority': 'low', 'resources_A:PCPU': '4'}, {},
     ['resources_A:PCPU', "'4'", "resources:VCPU = '4'"]),
    ({'hw:cpu_priority': 'low', 'resourcesA:VCPU': '4'}, {},
     ['resourcesA:VCPU', "'4'", "resources:VCPU = '4'"]),
    ({'resources-:VCPU': '0'}, {'priority': 'low'},
     ['resources-:VCPU', "'0'", "resources:VCPU = '4'"]),
    # One answer has both faults.
    ({'hw:cpu_priority': 'high'}, {'priority': 'urgent'},
     ["Scheduler hint 'priority' is 'urgent'; allowed values are 'high' and "
      "'low'. ",
      "extra spec hw:cpu_priority of the flavor is 'high'; only one of the"]),
    ({'hw:cpu_priority': 'gold'}, {'priority': 'urgent'},
     ["Scheduler hint 'priority' is 'urgent'",
      "allowed values are 'high' and 'low'",
      "Extra spec hw:cpu_priority of the flavor is 'gold'"]),
    ({'hw:cpu_priority': 'gold'}, {'priority': 'low'},
     ["Scheduler hint 'priority' is 'low'", 'only one of the two',
      "Extra spec hw:cpu_priority of the flavor is 'gold'",
      "allowed values are 'high' and 'low'"]),
    # Nova ignores these values, and would not pin the vCPUs.
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '0'}, {},
     ['resources:PCPU', "'0'", 'a whole number from 1 on']),
    ({'resources:PCPU': 'four'}, {'priority': 'high'},
     ['resources:PCPU', "'four'", 'a whole number from 1 on']),
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed',
      'resources:VCPU': '-1'}, {},
     ['resources:VCPU', "'-1'", 'a whole number from 1 on']),
])
def test_contradictory_request_is_refused(extra_specs, hints, words):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        priority_fold.fold(4, extra_specs, hints)
    for word in words:
        assert word in str(caught.value)


def nested(depth):
    """Return a list in a list in a list."""
    outer = []
    for _ in range(depth):
        outer = [outer]
    return outer


LINE = 'x\nINFO all is well'


def is_short_line(caught):
    """Return whether a refusal is one short line, safe for a log."""
    return str(caught.value).isprintable() and len(str(caught.value)) < 250


@pytest.mark.parametrize('hint', [
    LINE, '\r\x1b[2J\0', '\ud800', '\u2028\u202e', '%s%n', '{0.__class__}',
    '<name>&lt;', 'x' * 10 ** 6, ['x'] * 10 ** 5, nested(10 ** 5),
    {LINE: {LINE: [LINE]}}, [LINE], pytest.param(10 ** 4000, id='long')])
def test_refusal_of_hostile_hint_is_short(hint):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        priority_fold.fold(4, {}, {'priority': hint})
    assert is_short_line(caught)


@pytest.mark.parametrize('extra_specs', [
    {'hw:cpu_priority': LINE},
    {'hw:cpu_priority': 'low', 'hw:cpu_policy': LINE},
    {'hw:cpu_priority': 'high', 'resources:PCPU': LINE},
    {'hw:cpu_priority': 'low', 'resources:VCPU': 'x' * 255}])
def test_refusal_of_hostile_extra_spec_is_short(extra_specs):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        priority_fold.fold(4, extra_specs, {})
    assert is_short_line(caught)


@pytest.mark.parametrize('value', [LINE, 'x' * 60000])
@pytest.mark.parametrize('extra_specs', [
    {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'},
    {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}])
def test_refusal_of_hostile_image_property_is_short(extra_specs, value):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        priority_fold.check_image(extra_specs, {'hw_cpu_policy': value})
    assert is_short_line(caught)


@pytest.mark.parametrize('extra_specs, priority', [
    ({}, None),
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}, 'high'),
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed'}, 'high'),
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '4'}, 'high'),
    ({'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}, 'low'),
    # Not folded, therefore not in force.
    ({'hw:cpu_priority': 'high'}, None),
    ({'hw:cpu_priority': 'high', 'hw:cpu_policy': 'shared'}, None),
    ({'hw:cpu_priority': 'low'}, None),
    ({'hw:cpu_priority': 'low', 'hw:cpu_policy': 'dedicated'}, None),
    ({'hw:cpu_priority': 'nonsense', 'hw:cpu_policy': 'shared'}, None),
])
def test_priority_in_force(extra_specs, priority):
    assert priority == flavor_specs.get_priority(extra_specs)
