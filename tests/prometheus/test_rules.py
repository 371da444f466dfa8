# SPDX-License-Identifier: Apache-2.0

"""promtool checks the alerts, and runs the tests beside this file.

promtool is part of Debian's package prometheus. It must be installed.
"""

import json
import pathlib
import subprocess

import pytest
import yaml

HERE = pathlib.Path(__file__).parent
RULES = HERE.parents[1] / 'etc' / 'prometheus' / 'nova_prio.rules.yml'
DASHBOARD = HERE.parents[1] / 'etc' / 'grafana' / 'nova_prio.json'
TESTS = sorted(HERE.glob('*.test.yml'))


def promtool(*arguments):
    """Run promtool, which must succeed."""
    done = subprocess.run(
        ['promtool', *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=60)
    assert 0 == done.returncode, done.stdout


def test_rules_are_valid():
    promtool('check', 'rules', str(RULES))


def test_expressions_of_the_dashboard_are_valid(tmp_path):
    """promtool checks them as the expressions of rules."""
    rules = [{'record': 'test:%d' % number, 'expr': target['expr'].replace(
        '$__rate_interval', '5m')} for number, target in enumerate(
            target for panel in json.loads(DASHBOARD.read_text())['panels']
            for target in panel.get('targets', ()))]
    assert rules
    path = tmp_path / 'rules.yml'
    path.write_text(yaml.safe_dump(
        {'groups': [{'name': 'dashboard', 'rules': rules}]}))
    promtool('check', 'rules', str(path))


@pytest.mark.parametrize('path', TESTS, ids=lambda path: path.name)
def test_alerts_fire_as_expected(path):
    promtool('test', 'rules', str(path))


def test_each_alert_has_a_test_that_fires_and_one_that_does_not():
    alerts = {rule['alert']
              for group in yaml.safe_load(RULES.read_text())['groups']
              for rule in group['rules'] if 'alert' in rule}
    cases = [(case['alertname'], bool(case['exp_alerts']))
             for path in TESTS
             for group in yaml.safe_load(path.read_text())['tests']
             for case in group['alert_rule_test']]
    assert {(alert, fires) for alert in alerts
            for fires in (True, False)} == set(cases)
