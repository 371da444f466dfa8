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

import inspect
import logging

from nova import objects
import pytest

from nova_prio.compute import driver
from nova_prio.compute import tracker
from nova_prio import seams

objects.register_all()


@pytest.mark.parametrize(
    'seam', seams.SEAMS, ids=lambda seam: '%s.%s' % (seam.module, seam.target))
def test_seam_matches(seam):
    assert seam.mismatch() is None


@pytest.mark.parametrize('ours', [
    driver.PriorityLibvirtDriver, tracker.PriorityResourceTracker])
def test_every_override_is_listed_as_a_seam(ours):
    stock = ours.__mro__[1]
    assert stock.__module__.startswith('nova.')
    listed = {(seam.module, seam.target) for seam in seams.SEAMS}
    overridden = [name for name in vars(ours)
                  if inspect.isfunction(getattr(stock, name, None))]
    assert overridden
    for name in overridden:
        assert (stock.__module__,
                '%s.%s' % (stock.__name__, name)) in listed, name


@pytest.mark.parametrize('seam, mismatch', [
    (seams.Seam('s', 'nova.gone', 'x'), 'nova.gone.x does not exist'),
    (seams.Seam('s', 'nova.compute.api', 'API.gone'),
     'nova.compute.api.API.gone does not exist'),
    (seams.Seam('s', 'nova.compute.api', 'API.create', ('flavor', 'context')),
     "nova.compute.api.API.create has no parameter 'context' in its place"),
    (seams.Seam('s', 'nova.compute.api', 'API.create', ('self', 'gone')),
     "nova.compute.api.API.create has no parameter 'gone' in its place"),
    (seams.Seam('s', 'nova.scheduler.request_filter', 'ALL_REQUEST_FILTERS'),
     'nova.scheduler.request_filter.ALL_REQUEST_FILTERS is not callable'),
])
def test_mismatch_is_named(seam, mismatch):
    assert mismatch == seam.mismatch()


@pytest.mark.parametrize(
    'service', [seams.API, seams.SCHEDULER, seams.COMPUTE])
def test_service_refuses_a_nova_that_does_not_match(
        service, monkeypatch, caplog):
    monkeypatch.setattr(seams, 'SEAMS', (
        seams.Seam(service, 'nova.compute.api', 'API.gone'),))
    with pytest.raises(SystemExit) as caught:
        seams.check(service)
    assert 1 == caught.value.code
    line, = [record.getMessage() for record in caplog.records]
    assert 'nova.compute.api.API.gone does not exist' in line
    assert service in line
    assert '\n' not in line


def test_another_service_does_not_care(monkeypatch):
    monkeypatch.setattr(seams, 'SEAMS', (
        seams.Seam(seams.API, 'nova.compute.api', 'API.gone'),))
    seams.check(seams.COMPUTE)


def test_untested_release_is_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(seams, 'TESTED_RELEASES', (1,))
    with caplog.at_level(logging.WARNING):
        seams.check(seams.COMPUTE)
    assert 'is not tested with Nova' in caplog.text
