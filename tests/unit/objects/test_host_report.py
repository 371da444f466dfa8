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

from oslo_versionedobjects import fixture
import pytest

from nova_prio import capacity
from nova_prio.objects import host_report

CPUS = capacity.HostCPUs(frozenset(range(8)), frozenset(range(8, 12)),
                         capacity.exact_ratio('2.0'), mix=True)


def report():
    return host_report.HostReport.of(CPUS, capacity.Rows(4, 8, 2), 14)


def test_fingerprint():
    """A changed field needs a new version: old schedulers read this."""
    checker = fixture.ObjectVersionChecker(
        {'HostReport': [host_report.HostReport]})
    expected, actual = checker.test_hashes(
        {'HostReport': '1.0-6be90c36eb2874cbee6ac6c9dbe2daef'})
    assert expected == actual


def test_round_trip():
    read = host_report.HostReport.from_stats(
        {host_report.STATS_KEY: report().to_stats()})
    assert ('0-7', '8-11', True, 12, '2.0', 14) == (
        read.cpu_dedicated_set, read.cpu_shared_set, read.mix,
        read.floating_cpus, read.cpu_allocation_ratio, read.vcpus_used)
    assert capacity.Rows(8, 16, 8) == read.sellable
    assert capacity.Rows(4, 8, 2) == read.used


def test_the_same_report_is_the_same_text():
    assert report().to_stats() == report().to_stats()


@pytest.mark.parametrize('stats', [None, {}, {'uptime': 'x'}])
def test_no_report(stats):
    assert host_report.HostReport.from_stats(stats) is None


@pytest.mark.parametrize('text', [
    '', 'x', '[]', '{}', 'null', '{"nova_prio_object.name": "Other"}',
    '{"nova_prio_object.name": "HostReport",'
    ' "nova_prio_object.namespace": "nova_prio",'
    ' "nova_prio_object.version": "1.0", "nova_prio_object.data": {}}',
    '{"nova_prio_object.name": "HostReport",'
    ' "nova_prio_object.namespace": "nova_prio",'
    ' "nova_prio_object.version": "99.0", "nova_prio_object.data": {}}',
])
def test_unreadable_report(text):
    with pytest.raises(host_report.UnreadableReport):
        host_report.HostReport.from_stats({host_report.STATS_KEY: text})
