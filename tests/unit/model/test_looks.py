# SPDX-License-Identifier: Apache-2.0

"""Findings that are certain only after a second look."""

from nova_prio.model import looks


def look(findings, now, *uuids):
    findings.begin_recount()
    for uuid in uuids:
        findings.add(uuid, 'Instance %s is wrong' % uuid, now)
    findings.end_recount()


def test_second_look_is_late_enough():
    findings = looks.Findings()
    look(findings, 100, 'a')
    look(findings, 129, 'a')
    assert '' == findings.get_certain()
    look(findings, 130, 'a')
    assert 'Instance a is wrong' == findings.get_certain()


def test_a_look_that_finds_nothing_begins_anew():
    findings = looks.Findings()
    look(findings, 100, 'a')
    look(findings, 130)
    look(findings, 160, 'a')
    assert '' == findings.get_certain()


def test_an_unfinished_recount_changes_nothing():
    findings = looks.Findings()
    for now in 100, 130:
        look(findings, now, 'b', 'a')
    findings.begin_recount()
    findings.add('c', 'Instance c is wrong', 160)
    assert 'Instance a is wrong' == findings.get_certain()
