# SPDX-License-Identifier: Apache-2.0

"""The metrics in the documentation, the alerts, the dashboard and the units.

tests/prometheus runs the alerts.
"""

import configparser
import json
import re
import shlex

import pytest
import yaml

from nova_prio.admin import cloud_metrics
from nova_prio_host import host_metrics
from tests import pages

PAGE = (pages.ADMIN / 'metrics.rst').read_text()
DASHBOARD = pages.ROOT / 'etc' / 'grafana' / 'nova_prio.json'
RULES = [rule for group in yaml.safe_load((
    pages.ROOT / 'etc' / 'prometheus' / 'nova_prio.rules.yml'
).read_text())['groups'] for rule in group['rules']]
ALERTS = {rule['alert']: rule for rule in RULES if 'alert' in rule}
METRICS = {**cloud_metrics.METRICS, **host_metrics.METRICS}
SERVICES = sorted((pages.ROOT / 'etc' / 'systemd').glob('*-metrics.service'))
_NAME = re.compile(r'(?<![\w:])nova_prio_\w+')


def test_no_name_has_two_meanings():
    assert not cloud_metrics.METRICS.keys() & host_metrics.METRICS.keys()


@pytest.mark.parametrize('page, directives', [
    ('metrics', ['metrics:: cloud', 'metrics:: host']),
    ('alerts', ['alerts::']),
])
def test_each_table_is_built_into_its_page(page, directives):
    """The directives take the names and the texts from the code."""
    text = (pages.ADMIN / ('%s.rst' % page)).read_text()
    assert directives == re.findall(
        r'^\.\. ((?:metrics|alerts)::.*)$', text, re.M)


@pytest.mark.parametrize('name', METRICS)
def test_name_has_a_base_unit(name):
    """As the conventions of Prometheus demand of durations and counters."""
    kind = getattr(METRICS[name], 'kind', 'gauge')
    assert name.endswith('_total') == (kind == 'counter')
    assert not re.search('milli|micro|nano|minutes|_ms|_ns|percent', name)


def test_each_alert_names_a_page_that_exists():
    for name, rule in ALERTS.items():
        annotations = rule['annotations']
        assert annotations.keys() == {'summary', 'description'}, name
        page = re.search(r' (doc/\S+\.rst)\.$', annotations['description'])
        assert page and (pages.ROOT / page[1]).exists(), name


def test_alerts_use_metrics_that_exist():
    used = {name for rule in RULES for name in _NAME.findall(rule['expr'])}
    assert used and used <= METRICS.keys()
    # A recorded metric has colons in its name.
    recorded = {rule['record'] for rule in RULES if 'record' in rule}
    assert recorded == {name for rule in RULES for name in re.findall(
        r'\bhost:\w+:\w+', rule['expr'])}


def test_dashboard_uses_metrics_and_labels_that_exist():
    dashboard = json.loads(DASHBOARD.read_text())
    used = [target['expr'] for panel in dashboard['panels']
            for target in panel.get('targets', ())]
    used += [variable['definition'] for variable in
             dashboard['templating']['list'] if 'definition' in variable]
    assert len(used) > 10
    for expression in used:
        names = set(_NAME.findall(expression))
        assert names and names <= METRICS.keys(), expression
        labels = set(re.findall(r'(\w+)=~?"', expression))
        assert labels <= {'instance', *(
            label for name in names for label in METRICS[name].labels)}


def test_each_metric_is_on_the_dashboard_or_in_an_alert():
    text = DASHBOARD.read_text() + ' '.join(rule['expr'] for rule in RULES)
    # An old record is no fault, and units need an option.
    assert METRICS.keys() - set(_NAME.findall(text)) == {
        'nova_prio_report_changed_timestamp_seconds', 'nova_prio_units'}


@pytest.mark.parametrize('path', SERVICES, ids=lambda path: path.name)
def test_each_unit_has_a_timer_and_writes_a_file_of_its_own(path):
    def read(file):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read(file)
        return unit
    service, timer = map(read, (path, path.with_suffix('.timer')))
    program, *words = shlex.split(service['Service']['ExecStart'])
    assert program == path.name.replace('-metrics.service', '')
    assert words == [
        'metrics', '--output', '/var/lib/prometheus/node-exporter/%s.prom'
        % program.replace('-', '_')]
    assert 'oneshot' == service['Service']['Type']
    assert 'timers.target' == timer['Install']['WantedBy']
    assert timer['Timer']['OnCalendar']
    assert '``%s``' % path.name in PAGE


def test_both_units_were_found():
    assert 2 == len(SERVICES)
