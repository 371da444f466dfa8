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

import os_vif
import pytest

import nova.conf
from nova.api.validation.extra_specs import validators
from nova.compute import api
from nova import exception
from nova.scheduler import filters
from nova.scheduler import request_filter
from nova.scheduler import weights
from nova.virt.libvirt import driver as libvirt_driver
from oslo_utils import importutils
from stevedore import extension

from nova_prio.api import fold
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
        narrowing.require_priority_hosts)


def test_fold_is_installed_once():
    seams.install_fold(fold.fold_flavor)
    once = api.API.create
    seams.install_fold(fold.fold_flavor)
    assert once is api.API.create


@pytest.mark.parametrize('value', ['high', 'low'])
def test_validator_accepts(value):
    validators.validate('hw:cpu_priority', value)


@pytest.mark.parametrize('value', ['High', '', 'medium'])
def test_validator_refuses(value):
    with pytest.raises(exception.ValidationError, match='high, low'):
        validators.validate('hw:cpu_priority', value)
