# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How Nova finds what this package brings."""

import subprocess
import sys
import textwrap

import os_vif
import pytest

from nova.api.validation.extra_specs import validators
from nova.compute import api
import nova.conf
from nova import exception
from nova.scheduler import filters
from nova.scheduler import request_filter
from nova.scheduler import weights
from nova.virt.libvirt import driver as libvirt_driver
from oslo_utils import importutils
from stevedore import extension

from nova_prio.api import validators as entry_point
from nova_prio.scheduler import narrowing
from nova_prio.scheduler import start
from nova_prio import seams

CONF = nova.conf.CONF


@pytest.fixture
def scheduler_conf():
    seams.register_options()
    CONF.set_override('enabled_filters', ['ComputeFilter', 'PriorityFilter'],
                      group='filter_scheduler')
    CONF.set_override('disable_fallback_pcpu_query', True,
                      group='workarounds')
    yield
    CONF.clear_override('enabled_filters', group='filter_scheduler')
    CONF.clear_override('disable_fallback_pcpu_query', group='workarounds')


def test_os_vif_makes_the_driver_importable():
    os_vif.initialize(reset=True)
    found = importutils.import_class('nova.virt.prio.PriorityLibvirtDriver')
    assert issubclass(found, libvirt_driver.LibvirtDriver)


def test_os_vif_plugin_is_among_the_loaded_ones():
    names = extension.ExtensionManager('os_vif').names()
    assert 'nova_prio' in names


def test_another_driver_is_not_there():
    os_vif.initialize(reset=True)
    with pytest.raises(ImportError):
        importutils.import_class('nova.virt.prio.OtherDriver')


def test_scheduler_finds_the_filter_beside_its_own(scheduler_conf):
    found = filters.HostFilterHandler().get_matching_classes(
        ['nova.scheduler.filters.all_filters',
         'nova_prio.scheduler.filters.all_filters'])
    names = [cls.__name__ for cls in found]
    assert 1 == names.count('PriorityFilter')
    assert 1 == names.count('ComputeFilter')


def test_scheduler_finds_the_weigher_beside_its_own(scheduler_conf):
    found = weights.HostWeightHandler().get_matching_classes(
        ['nova.scheduler.weights.all_weighers',
         'nova_prio.scheduler.weights.all_weighers'])
    names = [cls.__name__ for cls in found]
    assert 1 == names.count('PriorityWeighter')
    assert 1 == names.count('RAMWeigher')


def test_narrowing_is_installed_once(scheduler_conf):
    for _ in range(2):
        start.start()
    assert 1 == request_filter.ALL_REQUEST_FILTERS.count(
        narrowing.narrow)


def test_scheduler_warns_once(scheduler_conf, monkeypatch, caplog):
    monkeypatch.setattr(request_filter, 'ALL_REQUEST_FILTERS', [])
    CONF.set_override('soft_affinity_weight_multiplier', 0.0,
                      group='filter_scheduler')
    try:
        for _ in range(2):
            start.start()
    finally:
        CONF.clear_override('soft_affinity_weight_multiplier',
                            group='filter_scheduler')
    warning, = [record.message for record in caplog.records
                if record.name == start.__name__]
    assert 'soft_affinity_weight_multiplier is 0.0' in warning


def test_scheduler_refuses_a_value_that_is_none(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[nova_prio]\nsoft_affinity_weight_multiplier = -1\n')
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', textwrap.dedent("""
            import sys
            import nova.conf
            from nova_prio.scheduler import start
            nova.conf.CONF([], default_config_files=[sys.argv[1]])
            start.start()"""), str(path)], stderr=subprocess.PIPE, text=True)
    assert 1 == done.returncode
    line = done.stderr.splitlines()[-1]
    for words in ('[nova_prio] soft_affinity_weight_multiplier:', str(path),
                  'greater than or equal to 0'):
        assert words in line


def test_fold_is_installed_once():
    entry_point.register()
    once = api.API.create, api.API.resize, api.flavors
    entry_point.register()
    assert once == (api.API.create, api.API.resize, api.flavors)


@pytest.fixture
def loaded_validators(request):
    """Load the validators as a nova-api that starts; yields ``validate``."""
    seams.register_options()
    CONF.set_override('enabled', getattr(request, 'param', True),
                      group='nova_prio')
    validators.VALIDATORS.clear()
    validators.load_validators()
    yield validators.validate
    CONF.clear_override('enabled', group='nova_prio')


@pytest.mark.parametrize('name, value', [
    ('hw:cpu_priority', 'high'), ('hw:cpu_priority', 'low'),
    ('aggregate_instance_extra_specs:priority', 'true'),
    ('aggregate_instance_extra_specs:priority_mix', 'False'),
    ('aggregate_instance_extra_specs:other', 'anything'),
])
def test_validator_accepts(loaded_validators, name, value):
    loaded_validators(name, value)


@pytest.mark.parametrize('name, value, words', [
    ('hw:cpu_priority', 'High', 'high, low'),
    ('hw:cpu_priority', '', 'high, low'),
    ('hw:cpu_priority', 'medium', 'high, low'),
    ('aggregate_instance_extra_specs:priority', 'high', 'boolean'),
    ('aggregate_instance_extra_specs:priority_mix', '', 'boolean'),
])
def test_validator_refuses(loaded_validators, name, value, words):
    with pytest.raises(exception.ValidationError, match=words):
        loaded_validators(name, value)


@pytest.mark.parametrize('loaded_validators', [False], indirect=True)
def test_no_validators_while_it_is_not_enabled(loaded_validators):
    with pytest.raises(exception.ValidationError, match='does not appear'):
        loaded_validators('hw:cpu_priority', 'high')
    loaded_validators('aggregate_instance_extra_specs:priority', 'high')
