# SPDX-License-Identifier: Apache-2.0

"""The file of a plan, and its comparison with the report of a host."""

import json
import os

import pytest

from nova_prio.admin import host as admin_host
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import verify
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity

OLD = cpu_capacity.HostCPUs(
    frozenset(), frozenset(range(12)), cpu_capacity.parse_ratio('16.0'),
    mix=False)
PLANNED = cpu_capacity.HostCPUs(
    frozenset(range(8)), frozenset(range(8, 12)),
    cpu_capacity.parse_ratio('2'), mix=True)
VCPU = {'total': 12, 'reserved': 0, 'allocation_ratio': 16.0}


@pytest.fixture
def save(tmp_path):
    """Return a function that saves a plan of mix1; it returns the path.

    The arguments replace one value: name of a row, column, value.
    """
    old = plan_format.format_options(OLD)
    planned = plan_format.format_options(PLANNED)
    rows = [plan_format.PlanRow('option', name, old[name], planned[name])
            for name in old]
    rows += [
        plan_format.PlanRow('inventory', 'VCPU', VCPU, {'total': 12}),
        plan_format.PlanRow('inventory', 'PCPU', {}, {'total': 8}),
        plan_format.PlanRow('floats', 'f00', 'CPUs 0-7'),
        plan_format.PlanRow('traits', 'traits', '', 'CUSTOM_CPU_PRIORITY'),
        plan_format.PlanRow('room', 'memory', {'left': -5}, {'left': 0}),
        plan_format.PlanRow('verdict', 'mix1', '', 'ready')]

    def save(name=None, column=None, value=None):
        records = [dict(zip(plan_format.COLUMNS, row)) for row in rows]
        for record in records:
            if record['Name'] == name:
                record[column] = value
        path = tmp_path / 'plan.json'
        path.write_text(json.dumps(records))
        return str(path)

    return save


def test_plan_is_loaded(save):
    plan = plan_format.load_plan(save(), 'mix1')
    assert (OLD, PLANNED) == (plan.old_cpus, plan.planned_cpus)
    assert plan_format.format_options(OLD) == plan.old_options
    assert {'VCPU': VCPU, 'PCPU': {}} == plan.old_inventories
    assert ([], ['CUSTOM_CPU_PRIORITY']) == (
        plan.old_traits, plan.planned_traits)
    assert ['f00'] == plan.floating
    assert plan.is_ready


def test_plan_is_found_in_a_directory(save, tmp_path):
    os.rename(save(), tmp_path / 'mix1.json')
    assert 'mix1' == plan_format.load_plan(str(tmp_path), 'mix1').host
    with pytest.raises(admin_host.HostRefused, match='mix2.json cannot be re'):
        plan_format.load_plan(str(tmp_path), 'mix2')
    with pytest.raises(admin_host.HostRefused, match='without a slash'):
        plan_format.load_plan(str(tmp_path), '../mix1')


def test_plan_of_a_host_that_was_not_ready_is_loaded(save):
    assert not plan_format.load_plan(
        save('mix1', 'Then', 'not ready'), 'mix1').is_ready


def test_plan_with_more_columns_is_loaded(save, tmp_path):
    """Files of other releases have other columns."""
    path = save()
    with open(path) as file:
        rows = json.load(file)
    with open(path, 'w') as file:
        json.dump([{**row, 'New': 'x'} for row in rows], file)
    assert OLD == plan_format.load_plan(path, 'mix1').old_cpus


@pytest.mark.parametrize('name, column, value', [
    ('cpu_dedicated_set', 'Now', 'banana'),
    ('cpu_allocation_ratio', 'Now', ''),
    ('cpu_allocation_ratio', 'Then', 'x'),
    ('VCPU', 'Now', 'x'), ('VCPU', 'Then', {'total': 'x'}),
    ('memory', 'Then', 'x'), ('traits', 'Now', None),
])
def test_wrong_value_is_refused(save, name, column, value):
    with pytest.raises(admin_host.HostRefused, match='is no plan; allowed is'):
        plan_format.load_plan(save(name, column, value), 'mix1')


@pytest.mark.parametrize('text', ['', '[]', '{"a": 1}', '[1]', 'null'])
def test_file_without_plan_is_refused(tmp_path, text):
    path = tmp_path / 'plan.json'
    path.write_text(text)
    with pytest.raises(admin_host.HostRefused, match='is no plan; allowed is'):
        plan_format.load_plan(str(path), 'mix1')


def test_plan_of_another_host_is_refused(save):
    with pytest.raises(admin_host.HostRefused, match='is a plan of mix1;'):
        plan_format.load_plan(save(), 'mix2')


def test_equal_ratios_with_different_texts_are_equal():
    cpus = cpu_capacity.HostCPUs(
        PLANNED.dedicated, frozenset(range(9, 12)),
        cpu_capacity.parse_ratio('2.0'), mix=True)
    report = capacity_report.CapacityReport.from_usage(
        cpus, cpu_capacity.Rows(0, 0, 0), 0, {})
    assert {'cpu_shared_set'} == {
        line.item for line in verify._compare_options(PLANNED, report)
        if line.state != verify.OK}
