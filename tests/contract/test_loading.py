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

"""What this package does when a service of Nova loads it."""

import subprocess
import sys
import textwrap

import pytest

from nova.compute import api
import nova.conf
from nova.scheduler import request_filter

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
                if (record.name, record.levelname) ==
                (start.__name__, 'WARNING')]
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
