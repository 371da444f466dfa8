# SPDX-License-Identifier: Apache-2.0

"""The amounts that the flavor and the image of an instance request."""

from unittest import mock

from nova import exception
from nova import objects
from nova.scheduler import utils as scheduler_utils
import pytest

from nova_prio.placement import allocations
from tests.unit import nova_objects

BASE = {'VCPU': 4, 'MEMORY_MB': 256, 'DISK_GB': 1}
PINNED = {'PCPU': 4, 'MEMORY_MB': 256, 'DISK_GB': 1}


def build(vm_state='active', metadata=None, extra_specs=None, **fields):
    """Return an instance.

    :param metadata: system metadata, in which image properties begin with
        ``image_``
    :param fields: fields of its flavor
    """
    flavor = nova_objects.flavor()
    if extra_specs is not None:
        flavor.extra_specs = extra_specs
    for name, value in fields.items():
        setattr(flavor, name, value)
    return objects.Instance(
        vm_state=vm_state, task_state=None, flavor=flavor, image_ref=None,
        system_metadata=metadata or {})


@pytest.mark.parametrize('changes, is_volume_backed, expected', [
    ({'vcpus': 2}, False, {**BASE, 'VCPU': 2}),
    ({'memory_mb': 512}, False, {**BASE, 'MEMORY_MB': 512}),
    ({'root_gb': 3}, False, {**BASE, 'DISK_GB': 3}),
    ({'ephemeral_gb': 2}, False, {**BASE, 'DISK_GB': 3}),
    ({'swap': 1024}, False, {**BASE, 'DISK_GB': 2}),
    ({'projects': ['one']}, False, BASE),
    ({}, True, {'VCPU': 4, 'MEMORY_MB': 256}),
    ({'extra_specs': {'hw:cpu_policy': 'dedicated'}}, False, PINNED),
    ({'extra_specs': {'resources:VCPU': '7'}}, False, {**BASE, 'VCPU': 7}),
    ({'extra_specs': {'resources:VCPU': '8'}}, False, {**BASE, 'VCPU': 8}),
    ({'metadata': {'image_hw_cpu_policy': 'shared'}}, False, BASE),
    ({'metadata': {'image_hw_cpu_policy': 'dedicated'}}, False, PINNED),
    # Of two keys for one property, Nova takes the last.
    ({'metadata': {'hw_cpu_policy': 'shared',
                   'image_hw_cpu_policy': 'dedicated'}}, False, PINNED),
    ({'metadata': {'image_hw_cpu_policy': 'dedicated',
                   'hw_cpu_policy': 'shared'}}, False, BASE),
    ({'vm_state': 'shelved_offloaded'}, False, {}),
])
def test_each_part_of_an_instance_counts(changes, is_volume_backed, expected):
    # The answer for one instance must not be that for another one.
    assert BASE == allocations.get_expected(build(), False)
    assert expected == allocations.get_expected(
        build(**changes), is_volume_backed)


def test_flavor_without_extra_specs():
    instance = build()
    del instance.flavor._obj_extra_specs
    assert BASE == allocations.get_expected(instance, False)


def test_scheduler_is_asked_once_for_equal_instances():
    allocations._ask_scheduler.cache_clear()
    with mock.patch.object(
            scheduler_utils.ResourceRequest, 'from_request_spec',
            side_effect=scheduler_utils.ResourceRequest.from_request_spec,
            ) as asked:
        for _ in range(2):
            assert BASE == allocations.get_expected(build(), False)
    asked.assert_called_once()


def test_refused_flavor_is_refused_again():
    for _ in range(2):
        with pytest.raises(exception.InvalidCPUAllocationPolicy):
            allocations.get_expected(
                build(extra_specs={'hw:cpu_policy': 'bogus'}), False)


def test_a_changed_answer_changes_no_other_answer():
    allocations.get_expected(build(), False).clear()
    assert BASE == allocations.get_expected(build(), False)
