# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status nova check``, in a process of its own."""

import json
import os
import subprocess
import sys

from nova_prio.admin import nova_report
from nova_prio.compat import contract


def run(tmp_path, *arguments, before=''):
    """Run the command in an empty directory.

    :param before: Python code that changes Nova before the command runs
    :returns: (exit status, standard output, standard error)
    """
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c',
         'import sys\nsys.argv[0] = "nova-prio-status"\n%s\n'
         'from nova_prio.cmd import status\nsys.exit(status.main())' % before,
         'nova', *arguments], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, 'HOME': str(tmp_path)})
    assert 'Traceback' not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def test_supported_nova_has_no_findings(tmp_path):
    """The command ignores a wrong configuration in the image."""
    (tmp_path / '.nova').mkdir()
    (tmp_path / '.nova' / 'nova.conf').write_text(
        '[nova_prio]\nenabled = perhaps\n')
    status, text, _error = run(tmp_path, 'check')
    assert nova_report.SUITS == status
    *_, versions, next_step = text.splitlines()
    assert 'Nova %s, which is among the tested ' % contract.get_nova_release(
        ) in versions
    assert 'of %d contracts 0 do not' % len(
        nova_report.list_contracts()) in versions
    assert 'You may roll the image out.' == next_step


def test_mismatches_are_listed(tmp_path):
    change = ('from nova.compute import claims\n'
              'from nova.scheduler import request_filter\n'
              'del claims.MoveClaim, request_filter.process_reqspec')
    status, text, error = run(tmp_path, 'check', '-f', 'json', before=change)
    assert (nova_report.UNSUITABLE, '') == (status, error)
    found = json.loads(text)
    assert found['next'].startswith('Do not roll the image out')
    assert contract.get_nova_release() == found['nova']
    findings = {(each['service'], each['contract']): each['finding']
                for each in found['findings']}
    for service, name, words in (
            (contract.SCHEDULER, 'nova.scheduler.request_filter.'
             'process_reqspec', 'process_reqspec does not exist'),
            (contract.COMMANDS, 'nova.scheduler.request_filter.'
             'process_reqspec', 'process_reqspec does not exist'),
            (contract.COMPUTE, 'nova_prio.compute.claims.PriorityMoveClaim',
             "cannot be loaded: module 'nova.compute.claims' has no"),
            (contract.COMPUTE, 'nova_prio.compute can be imported',
             "nova_prio.compute.claims: module 'nova.compute.claims' has no "
             "attribute 'MoveClaim'"),
            (contract.COMPUTE, "os_vif makes the driver "
             "'prio.PriorityLibvirtDriver' importable", 'cannot be tried: '),
            (contract.SCHEDULER, 'nova-scheduler runs the request filter',
             'nova-scheduler would refuse to start')):
        assert words in findings.pop((service, name)), name
    assert all(words not in str(findings) for words in (
        contract.COMMANDS, 'extra specs', 'emulator')), findings
    status, text, _error = run(tmp_path, 'check', before=change)
    assert nova_report.UNSUITABLE == status
    assert 'process_reqspec does not exist' in text
    assert found['next'] == text.splitlines()[-1]


def test_untested_nova_is_a_warning(tmp_path):
    status, text, _error = run(
        tmp_path, 'check', before='from nova_prio.compat import contract\n'
        'contract.TESTED_RELEASES = (2,)')
    assert nova_report.UNTESTED == status
    assert ', which is not among the tested 2; ' in text
    assert 'to one host' in text.splitlines()[-1]


def test_missing_nova_is_reported(tmp_path):
    status, text, error = run(
        tmp_path, 'check', before='sys.modules["nova"] = None')
    assert (nova_report.UNSUITABLE, '') == (status, text)
    assert 'Nova is not installed beside this nova-prio; install both' in error


def test_wrong_usage_is_refused(tmp_path):
    status, text, error = run(tmp_path, 'chek')
    assert (2, '') == (status, text)
    assert "invalid choice: 'chek'" in error
