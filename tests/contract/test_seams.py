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

from concurrent import futures
import contextvars
import inspect
import logging
import pathlib
import re
import threading
import types

from nova.api.openstack.compute import servers
from nova.compute import api
from nova import objects
import pytest

from nova_prio.compute import driver
from nova_prio.compute import tracker
from nova_prio import conf
from nova_prio import contract
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler.weights import group_weighers
from nova_prio.scheduler.weights import priority_weighter
from nova_prio import seams

objects.register_all()


@pytest.mark.parametrize('ours', [
    driver.PriorityLibvirtDriver, tracker.PriorityResourceTracker,
    priority_filter.PriorityFilter, priority_weighter.PriorityWeighter,
    group_weighers.SoftAffinityWeigher,
    group_weighers.SoftAntiAffinityWeigher])
def test_every_override_is_listed_as_a_seam(ours):
    first = [cls.__module__.startswith('nova.')
             for cls in ours.__mro__].index(True)
    stock = ours.__mro__[first]
    listed = {(seam.module, seam.target) for seam in contract.SEAMS}
    overridden = [name for cls in ours.__mro__[:first] for name in vars(cls)
                  if inspect.isfunction(getattr(stock, name, None))]
    assert overridden
    for name in overridden:
        assert (stock.__module__,
                '%s.%s' % (stock.__name__, name)) in listed, name


def test_not_enabled_beside_a_nova_that_does_not_match(monkeypatch):
    controller = servers.ServersController
    assert not seams.register_options().nova_prio.enabled
    monkeypatch.setattr(contract, 'SEAMS', (
        contract.Seam(contract.API, 'nova.compute.api', 'API.gone'),))
    before = dict(vars(api.API)), api.flavors, controller.create
    seams.install_api(*7 * [None])
    assert before == (dict(vars(api.API)), api.flavors, controller.create)


def test_a_resize_is_seen_by_its_own_thread_only():
    resizing = contextvars.ContextVar('resizing', default=None)
    flavors = seams._FlavorsOfResize(
        types.SimpleNamespace(get_flavor_by_flavor_id=lambda name: name),
        resizing, lambda flavor, instance: (flavor, instance))
    barrier = threading.Barrier(8)

    def resize(instance):
        token = resizing.set(instance)
        barrier.wait()
        try:
            return flavors.get_flavor_by_flavor_id('f')
        finally:
            resizing.reset(token)

    with futures.ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(resize, [None] + list(range(1, 8))))
    assert ['f'] + [('f', each) for each in range(1, 8)] == seen


@pytest.mark.parametrize('seam, mismatch', [
    (contract.Seam('s', 'nova.gone', 'x'), 'nova.gone.x does not exist'),
    (contract.Seam('s', 'nova.compute.api', 'API.gone'),
     'nova.compute.api.API.gone does not exist'),
    (contract.Seam('s', 'nova.compute.api', 'Gone.__init__'),
     'nova.compute.api.Gone.__init__ does not exist'),
    (contract.Seam('s', 'nova.compute.api', 'API.create',
                   ('flavor', 'context')),
     "nova.compute.api.API.create has no parameter 'context' in its place"),
    (contract.Seam('s', 'nova.compute.api', 'API.create', ('self', 'gone')),
     "nova.compute.api.API.create has no parameter 'gone' in its place"),
    (contract.Seam('s', 'nova.scheduler.request_filter',
                   'ALL_REQUEST_FILTERS'),
     'nova.scheduler.request_filter.ALL_REQUEST_FILTERS is not callable'),
    (contract.Option('s', 'compute', 'gone'), '[compute] gone does not exist'),
    (contract.Option('s', 'gone', 'x'), '[gone] x does not exist'),
    (contract.Option('s', 'DEFAULT', 'gone'), '[DEFAULT] gone does not exist'),
    (contract.Option('s', 'compute', 'gone', may_be_missing=True), None),
])
def test_mismatch_is_named(seam, mismatch):
    assert mismatch == seam.mismatch()


@pytest.mark.parametrize(
    'service', [contract.API, contract.SCHEDULER, contract.COMPUTE])
def test_service_refuses_a_nova_that_does_not_match(
        service, monkeypatch, caplog):
    monkeypatch.setattr(contract, 'SEAMS', (
        contract.Seam(service, 'nova.compute.api', 'API.gone'),))
    with pytest.raises(SystemExit) as caught:
        contract.check(service)
    assert 1 == caught.value.code
    line, = [record.getMessage() for record in caplog.records]
    assert 'nova.compute.api.API.gone does not exist' in line
    assert service in line
    assert '\n' not in line


def test_service_refuses_a_nova_without_an_option(monkeypatch, caplog):
    monkeypatch.setattr(contract, 'OPTIONS', (
        contract.Option(contract.COMPUTE, 'compute', 'gone'),))
    with pytest.raises(SystemExit):
        contract.check(contract.COMPUTE)
    assert '[compute] gone does not exist' in caplog.text
    contract.check(contract.SCHEDULER)


#: An option that is read as an attribute of the configuration.
READ = re.compile(r'\b(?:CONF|_?conf)\.(?:(\w+)\.)?(\w+)\b(?!\()')


def test_every_option_that_is_read_is_listed():
    ours = {option.name for _, options in conf.list_opts()
            for option in options}
    listed = {(option.group, option.option) for option in contract.OPTIONS}
    options = seams.register_options()
    read = {(group or 'DEFAULT', option)
            for path in pathlib.Path(conf.__file__).parent.rglob('*.py')
            for group, option in READ.findall(path.read_text())
            if contract.is_registered(options, group or 'DEFAULT', option)
            and option not in ours and option not in options._groups}
    assert ('compute', 'cpu_dedicated_set') in read
    # oslo.config has these for every service.
    read -= {('DEFAULT', 'config_file'), ('DEFAULT', 'config_dir')}
    assert set() == read - listed


def test_another_service_does_not_care(monkeypatch):
    monkeypatch.setattr(contract, 'SEAMS', (
        contract.Seam(contract.API, 'nova.compute.api', 'API.gone'),))
    contract.check(contract.COMPUTE)


def test_untested_release_is_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(contract, 'TESTED_RELEASES', (1,))
    with caplog.at_level(logging.WARNING):
        contract.check(contract.COMPUTE)
    assert 'is not tested with Nova' in caplog.text
