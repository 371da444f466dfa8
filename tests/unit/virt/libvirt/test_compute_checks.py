# SPDX-License-Identifier: Apache-2.0

import nova.conf
import pytest

from nova_prio.compat import hooks
from nova_prio.virt.libvirt import compute_checks

GROUPS = {'cpu_power_management': 'libvirt', 'cpu_dedicated_set': 'compute',
          'cpu_shared_set': 'compute', 'low_emulator_set': 'nova_prio'}


@pytest.fixture
def problems(monkeypatch, tmp_path):
    """Return a function: options -> their problems."""
    conf = hooks.register_options()
    monkeypatch.setattr(compute_checks, 'ISOLATED', tmp_path / 'isolated')
    monkeypatch.setattr(compute_checks, 'ONLINE', tmp_path / 'online')

    def problems(isolated=None, online=None,
                 find=compute_checks.find_problems, **options):
        if isolated is not None:
            compute_checks.ISOLATED.write_text(isolated)
        if online is not None:
            compute_checks.ONLINE.write_text(online)
        options = {'cpu_priority_mix_enable': True, 'cpu_dedicated_set': '0-7',
                   'cpu_shared_set': '8-11', **options}
        try:
            for name, value in options.items():
                conf.set_override(name, value, group=GROUPS.get(name))
            return find(conf)
        finally:
            for name in options:
                conf.clear_override(name, group=GROUPS.get(name))

    assert conf is nova.conf.CONF
    return problems


@pytest.mark.parametrize('options, words', [
    ({}, []),
    (dict(cpu_priority_mix_enable=False, cpu_dedicated_set=None,
          cpu_shared_set=None), []),
    (dict(cpu_dedicated_set=None),
     [['cpu_priority_mix_enable', 'cpu_dedicated_set is empty']]),
    (dict(cpu_shared_set=None),
     [['cpu_priority_mix_enable', 'cpu_shared_set is empty']]),
    (dict(cpu_dedicated_set=None, cpu_shared_set=None),
     [['cpu_dedicated_set'], ['cpu_shared_set']]),
    # With mix or without.
    (dict(cpu_shared_set='6-11'), [['both hold CPUs 6-7']]),
    (dict(cpu_shared_set='6-11', cpu_priority_mix_enable=False),
     [['both hold CPUs 6-7', 'out of one']]),
    (dict(cpu_dedicated_set='0-x'),
     [["cpu_dedicated_set is '0-x'", 'such as 0-3,8']]),
    (dict(cpu_shared_set='8,^8'), [["cpu_shared_set is '8,^8'"]]),
    # 4 * 0.2 is less than one vCPU.
    (dict(cpu_allocation_ratio=0.2), [['0.2', 'raise cpu_allocation_ratio']]),
    # A ratio that may be kept in Placement stops nothing.
    (dict(initial_cpu_allocation_ratio=0.2), []),
    # 2 * 0.5 is one.
    (dict(cpu_allocation_ratio=0.5, cpu_shared_set='8-9'), []),
    (dict(cpu_power_management=True), [['cpu_power_management', 'disable']]),
    (dict(cpu_power_management=True, cpu_priority_mix_enable=False), []),
    (dict(isolated='2-3,9\n'), [['CPUs 2-3', 'isolcpus']]),
    (dict(isolated='8-11\n'), []),
    (dict(isolated='\n'), []),
    (dict(isolated='2-3\n', cpu_priority_mix_enable=False), []),
    # Outside of both sets, and within the shared one.
    (dict(low_emulator_set='12-13', online='0-15\n'), []),
    (dict(low_emulator_set='8'), []),
    (dict(low_emulator_set='7-8,12', cpu_priority_mix_enable=False),
     [["low_emulator_set is '7-8,12'", 'CPUs 7 are in [compute] '
       'cpu_dedicated_set', 'outside of it']]),
    (dict(low_emulator_set='12-x'),
     [["low_emulator_set is '12-x'", 'such as 0-3,8']]),
    (dict(low_emulator_set='9-8'), [["low_emulator_set is '9-8'"]]),
    (dict(low_emulator_set='12,^12'), [["low_emulator_set is '12,^12'"]]),
    (dict(low_emulator_set='12-17', online='0-15\n'),
     [["low_emulator_set is '12-17'", 'CPUs 16-17 are not online',
       'give CPUs of 0-15']]),
])
def test_problems(problems, options, words):
    found = problems(**options)
    assert len(words) == len(found), found
    for expected, problem in zip(words, found):
        assert '\n' not in problem
        assert all(word in problem for word in expected), problem


@pytest.mark.parametrize('options, words', [
    (dict(online='0-15\n'), []),
    # A container may have no such file.
    ({}, []),
    (dict(online='0-9\n'), [["cpu_shared_set is '8-11'",
                             'CPUs 10-11 are not', 'give CPUs of 0-9']]),
    (dict(online='8-11\n'), [["cpu_dedicated_set is '0-7'",
                              'CPUs 0-7 are not']]),
    (dict(online='8-11\n', cpu_power_management=True), []),
    (dict(online='0-5\n'), [['cpu_shared_set'],
                            ['cpu_dedicated_set', 'CPUs 6-7']]),
    (dict(reserved_host_cpus=1), [['reserved_host_cpus is 1', 'remove']]),
    (dict(reserved_host_cpus=1, cpu_dedicated_set=None,
          cpu_shared_set=None), []),
    (dict(vcpu_pin_set='0-7'), [["vcpu_pin_set is '0-7'", 'remove']]),
    (dict(vcpu_pin_set='0-7', cpu_dedicated_set=None), []),
])
def test_problems_of_nova(problems, options, words):
    found = problems(find=compute_checks.find_problems_of_nova, **options)
    assert len(words) == len(found), found
    for expected, problem in zip(words, found):
        assert all(word in problem for word in expected), problem
