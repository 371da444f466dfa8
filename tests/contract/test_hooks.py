# SPDX-License-Identifier: Apache-2.0

import inspect
import logging
import pathlib
import re
import subprocess
import sys
import textwrap

from nova.compute import api
from nova.compute import resource_tracker
from nova import objects
from nova.scheduler.weights import cpu
from oslo_utils import importutils
import pytest

from nova_prio.api import compute_api
from nova_prio.api import validators
from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.compat import interfaces
from nova_prio import conf as prio_conf
from nova_prio.scheduler import start

objects.register_all()
TRACKER = 'nova_prio.compute.resource_tracker.PriorityResourceTracker'
#: Our packages that read options of Nova.
READERS = {interfaces.API: ['api'], interfaces.SCHEDULER: ['scheduler'],
           interfaces.COMPUTE: ['compute', 'virt'],
           interfaces.COMMANDS: ['admin', 'cmd']}
#: Group and name of an option that is read as an attribute of the
#: configuration. Names with ``config_`` belong to oslo.config itself.
OPTION = re.compile(
    r'(?<!nova\.)\b(?:CONF|_?conf)\.(?:([a-z]\w*)\.)?'
    r'((?!(?:default_)?config_)[a-z]\w*)\b(?!\()')


@pytest.fixture
def lacks_a_name(monkeypatch):
    """Return a function that lets Nova lack a name for one service."""
    def lacks_a_name(lacking):
        monkeypatch.setattr(
            contract, 'find_mismatches',
            lambda service: ['x is gone'] if service == lacking else [])

    return lacks_a_name


def run(script, *arguments):
    """Run a script with another Python; return its output."""
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', textwrap.dedent(script),
         *arguments], stdout=subprocess.PIPE, text=True, check=True,
        timeout=120).stdout.strip()


@pytest.mark.parametrize('ours', [
    name for names in interfaces.EXTENDED.values() for name in names])
def test_every_override_calls_super_or_is_listed(ours):
    ours = importutils.import_class(ours)
    first = [cls.__module__.startswith('nova.')
             for cls in ours.__mro__].index(True)
    extended = {name.rpartition('.')[2]
                for name, _, _ in contract.find_extensions(ours)}
    listed = {name.replace(':', '.') for service in READERS
              for name, _ in contract.list_names(service)}
    overridden = {
        name for cls in ours.__mro__[:first] for name in vars(cls)
        if inspect.isfunction(getattr(ours.__mro__[first], name, None))}
    assert overridden
    for name in overridden - extended:
        assert listed.intersection(
            '%s.%s.%s' % (base.__module__, base.__qualname__, name)
            for base in ours.__mro__[first:]), name


@pytest.mark.parametrize('name, function, words', [
    ('_update_usage', None, 'does not exist'),
    ('_update_usage', lambda self, usage, sign=1, nodename=None: None,
     "has no parameter 'nodename' in its place"),
    ('_update_usage', lambda self, usage, nodename: None,
     "has no parameter 'sign' in its place"),
    ('_update_usage', lambda self, usage, nodename, sign=1, now=0: None,
     "has a new parameter 'now'"),
    ('abort_instance_claim', lambda self, context, instance, prefix: None,
     "has no parameter 'nodename' in its place"),
    # Our method forwards all parameters after the flavor.
    ('resize_claim', lambda self, context, instance, flavor, now: None, None),
    # Two of our classes extend this method.
    ('_update_usage_from_migration', None, 'does not exist'),
])
def test_base_that_changed_is_named(name, function, words, monkeypatch):
    assert contract.compare_methods(TRACKER) is None
    monkeypatch.delattr(resource_tracker.ResourceTracker, name)
    if function:
        monkeypatch.setattr(resource_tracker.ResourceTracker, name, function,
                            raising=False)
    assert contract.compare_methods(TRACKER) == (
        words and 'nova.compute.resource_tracker.ResourceTracker.%s %s'
        % (name, words))
    found = contract.find_mismatches(interfaces.COMPUTE)
    assert bool(found) is bool(words)
    assert not contract.find_mismatches(interfaces.SCHEDULER)


def test_base_of_another_service_that_vanished_is_named(monkeypatch):
    stock, = compute_api.PriorityAPI.__bases__
    monkeypatch.delattr(stock, 'evacuate')
    assert ['nova.compute.api.API.evacuate does not exist'] == (
        contract.find_mismatches(interfaces.API))
    monkeypatch.undo()
    monkeypatch.setattr(cpu.CPUWeigher, '_weigh_object',
                        lambda self, state, weight_properties: 0)
    assert ["nova.scheduler.weights.cpu.CPUWeigher._weigh_object has no "
            "parameter 'host_state' in its place"] == (
                contract.find_mismatches(interfaces.SCHEDULER))


def test_class_of_ours_that_cannot_be_loaded_is_named():
    name = 'nova_prio.compute.resource_tracker.Gone'
    assert contract.compare_methods(name).startswith(
        name + ' cannot be loaded: ')


@pytest.mark.parametrize('service', interfaces.EXTENDED)
def test_check_imports_only_code_of_its_service(service):
    """Nothing of a service that does not run here."""
    others = {
        interfaces.API: (
            'nova.scheduler.manager', 'nova.virt.libvirt.driver',
            'nova_prio.scheduler', 'nova_prio.compute'),
        interfaces.SCHEDULER: (
            'nova.api.openstack.compute.servers', 'nova.compute.manager',
            'nova.virt.libvirt.driver', 'nova_prio.api', 'nova_prio.compute'),
        interfaces.COMPUTE: (
            'nova.scheduler.manager', 'nova_prio.api',
            'nova_prio.scheduler')}[service]
    assert '[] []' == run("""
        from nova_prio.compat import contract, hooks
        import sys
        hooks.register_options()
        found = contract.find_mismatches(sys.argv[1])
        print(found, [name for name in sys.argv[2:] if name in sys.modules])
        """, service, *others)


@pytest.mark.parametrize('threads', [
    '', """
        import eventlet
        eventlet.monkey_patch()"""], ids=['native', 'eventlet'])
def test_lock_of_tracker_lets_its_holder_in_again(threads):
    """Our tracker calls methods of Nova's under the lock that they take."""
    assert 'True 8' == run(threads + """
        from nova.compute import resource_tracker
        from nova import utils
        import threading
        import time
        locked = utils.synchronized(
            resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
        order = []

        @locked
        def inner(name):
            order.append(name)
            time.sleep(0.01)

        @locked
        def outer(name):
            inner(name)
            # The lock is still held.
            inner(name)

        threads = [threading.Thread(target=outer, args=(n,)) for n in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        print(order == [n for n in order[::2] for _ in range(2)], len(order))
        """)


def test_not_enabled_beside_a_nova_that_does_not_match(lacks_a_name):
    assert not hooks.register_options().nova_prio.enabled
    lacks_a_name(interfaces.API)
    before = api.API
    assert [] == validators.register()
    assert before is api.API


@pytest.mark.parametrize('path, parameters, mismatch', [
    ('nova.gone:x', (), 'nova.gone.x does not exist'),
    ('nova.compute.api:API.gone', (),
     'nova.compute.api.API.gone does not exist'),
    ('nova.compute.api:Gone.create', (),
     'nova.compute.api.Gone.create does not exist'),
    ('nova.compute.api:API.create', ('flavor', 'context'),
     "nova.compute.api.API.create has no parameter 'context' in its place"),
    ('nova.compute.api:API.create', ('self', 'gone'),
     "nova.compute.api.API.create has no parameter 'gone' in its place"),
    ('nova.scheduler.request_filter:ALL_REQUEST_FILTERS', ('x',),
     'nova.scheduler.request_filter.ALL_REQUEST_FILTERS is not callable'),
    ('nova.compute.api:API.create', ('flavor', 'scheduler_hints'), None),
])
def test_differing_name(path, parameters, mismatch):
    assert mismatch == contract.compare_name(path, parameters)


@pytest.mark.parametrize('service', READERS)
def test_options_that_are_read_are_listed(service):
    own = {(group.name if group else 'DEFAULT', option.name)
           for group, options in prio_conf.list_opts() for option in options}
    package = pathlib.Path(prio_conf.__file__).parent
    read = {(group or 'DEFAULT', name)
            for directory in READERS[service]
            for path in (package / directory).rglob('*.py')
            for group, name in OPTION.findall(path.read_text())
            # Options of a whole group are read through a variable.
            if group or name not in ('filter_scheduler', 'nova_prio')}
    listed = {tuple(path.split('.'))
              for services, text in interfaces.OPTIONS.items()
              for path in text.split() if service in services}
    assert read - own - listed == set()


@pytest.mark.parametrize('service, group, option', [
    (interfaces.COMPUTE, 'compute', 'cpu_dedicated_set'),
    (interfaces.COMPUTE, 'libvirt', 'virt_type'),
    (interfaces.SCHEDULER, 'filter_scheduler', 'weight_classes'),
    (interfaces.API, 'quota', 'driver'),
    (interfaces.COMMANDS, 'api_database', 'connection'),
    (interfaces.COMPUTE, 'DEFAULT', 'cpu_allocation_ratio'),
])
def test_option_that_vanished_is_named(service, group, option, monkeypatch):
    assert contract.find_mismatches(service) == []
    conf = hooks.register_options()
    options = conf if group == 'DEFAULT' else conf._groups[group]
    monkeypatch.delitem(options._opts, option)
    assert contract.find_mismatches(service) == [
        '[%s] %s does not exist' % (group, option)]


@pytest.mark.parametrize(
    'service', [interfaces.API, interfaces.SCHEDULER, interfaces.COMPUTE])
def test_service_refuses_a_nova_that_does_not_match(service, lacks_a_name):
    lacks_a_name(service)
    with pytest.raises(contract.StartRefused) as caught:
        contract.check(service)
    line = str(caught.value)
    assert 'in %s: x is gone. Install a release' % service in line
    assert '\n' not in line


def test_entry_point_ends_the_service_with_one_line(lacks_a_name, caplog):
    @contract.exit_if_refused()
    def enter():
        contract.check(interfaces.API)

    lacks_a_name(interfaces.API)
    with pytest.raises(SystemExit) as caught:
        enter()
    assert 1 == caught.value.code
    line, = [record.getMessage() for record in caplog.records]
    assert 'in nova-api: x is gone. Install a release' in line
    # A check that nobody has entered from Nova does not exit.
    with pytest.raises(contract.StartRefused):
        validators.install_priority_api()


def test_scheduler_refuses_its_configuration_without_an_exit():
    conf = hooks.register_options()
    assert 'PriorityFilter' not in conf.filter_scheduler.enabled_filters
    with pytest.raises(contract.StartRefused, match='enabled_filters'):
        start.start()


def test_another_service_does_not_care(lacks_a_name):
    lacks_a_name(interfaces.API)
    contract.check(interfaces.COMPUTE)


def test_untested_release_is_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(contract, 'TESTED_RELEASES', (1,))
    with caplog.at_level(logging.WARNING):
        contract.check(interfaces.COMPUTE)
    assert 'is not tested with Nova' in caplog.text
