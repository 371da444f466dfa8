# SPDX-License-Identifier: Apache-2.0

"""The start of this package in a service of Nova."""

import os
import subprocess
import sys
import textwrap

import pytest

from nova.compute import api
import nova.conf
from nova.scheduler import request_filter

from nova_prio.api import compute_api
from nova_prio.api import validators as entry_point
from nova_prio.compat import hooks
from nova_prio.scheduler import request_filter as prio_request_filter
from nova_prio.scheduler import start

CONF = nova.conf.CONF


@pytest.fixture
def scheduler_conf():
    hooks.register_options()
    CONF.set_override('enabled_filters', ['ComputeFilter', 'PriorityFilter'],
                      group='filter_scheduler')
    CONF.set_override('disable_fallback_pcpu_query', True,
                      group='workarounds')
    yield
    CONF.clear_override('enabled_filters', group='filter_scheduler')
    CONF.clear_override('disable_fallback_pcpu_query', group='workarounds')


def test_request_filter_is_installed_once(scheduler_conf):
    for _ in range(2):
        start.start()
    assert 1 == request_filter.ALL_REQUEST_FILTERS.count(
        prio_request_filter.restrict_request)


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
                if (record.name, record.levelname) ==
                (start.__name__, 'WARNING')]
    assert 'soft_affinity_weight_multiplier is 0.0' in warning


def test_scheduler_refuses_a_value_that_is_none(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[nova_prio]\nsoft_affinity_weight_multiplier = -1\n')
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', textwrap.dedent("""
            import nova.conf
            from nova_prio.scheduler import filters
            import sys
            nova.conf.CONF([], default_config_files=[sys.argv[1]])
            filters.all_filters()"""), str(path)],
        stderr=subprocess.PIPE, text=True)
    assert 1 == done.returncode
    line = done.stderr.splitlines()[-1]
    for words in ('[nova_prio] soft_affinity_weight_multiplier:', str(path),
                  'greater than or equal to 0'):
        assert words in line


@pytest.mark.parametrize('name', ['nova.conf', 'other.conf'])
def test_fold_is_installed_before_nova_reads_its_files(name, tmp_path):
    """The program nova-api-wsgi imports the API first."""
    path = tmp_path / name
    path.write_text('[nova_prio]\nenabled = true\n')
    arguments = []
    if name == 'other.conf':
        arguments = ['--debug', '--config-file', str(path)]
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', textwrap.dedent("""
            import nova.api.openstack.compute
            from nova.api.validation.extra_specs import validators
            from nova.compute import api
            assert 'hw:cpu_priority' in validators.VALIDATORS
            print(api.API.__name__)"""), *arguments],
        env={**os.environ, 'OS_NOVA_CONFIG_DIR': str(tmp_path)},
        capture_output=True, text=True)
    assert 'PriorityAPI\n' == done.stdout, done.stderr
    # Nova has not set up its log yet.
    assert ': enabled true, the extra spec' in done.stderr


def test_fold_is_installed_once(monkeypatch):
    hooks.register_options()
    monkeypatch.setattr(api, 'API', api.API)
    CONF.set_override('enabled', True, group='nova_prio')
    try:
        for _ in range(2):
            entry_point.register()
    finally:
        CONF.clear_override('enabled', group='nova_prio')
    assert compute_api.PriorityAPI is api.API
