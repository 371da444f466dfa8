# SPDX-License-Identifier: Apache-2.0

"""Reading the logs of a live cloud."""

import pytest

from tests.live import layout as layouts
from tests.live import logs

START = '2026-01-01 00:00:00.000 1 ERROR nova.compute.manager '
TRACKER = (
    '  File "/lib/nova_prio/compute/resource_tracker.py", line 1, in update')
NOVA = '  File "/lib/nova/compute/manager.py", line 1, in update'
SOURCE = ['    self.update()', '         ^^^^^^^^']
#: A frame that is quoted within a line is not a frame of a traceback.
QUOTED = "Error from last host: ['" + TRACKER + "\\n']"


@pytest.fixture
def layout(tmp_path):
    found = layouts.Layout(tmp_path)
    found.save()
    for name in 'compute.log', 'nova-scheduler.log', 'network.log':
        write(found, name, 'before')
    return found


def write(layout, name, *lines):
    with open(layout.log / name, 'a') as log:
        log.writelines(line + '\n' for line in lines)


def test_lines_are_only_new_lines(layout):
    written = logs.NewLines(layout)
    for name in 'compute.log', 'nova-scheduler.log', 'network.log':
        write(layout, name, name, 'a\rb')
    assert {'compute.log', 'nova-scheduler.log', 'a\rb', ''} == set(
        written.lines())
    assert ['nova-scheduler.log', 'a\rb', ''] == written.lines(
        'nova-scheduler')


@pytest.mark.parametrize('frames, is_ours', [
    ([NOVA, *SOURCE, TRACKER, *SOURCE, 'ValueError'], True),
    ([TRACKER, *SOURCE, 'ValueError', '', 'During handling', '',
      'Traceback', NOVA, *SOURCE], True),
    ([TRACKER, *SOURCE, NOVA, *SOURCE, 'ValueError'], False),
    ([TRACKER, *SOURCE, SOURCE[0], NOVA, *SOURCE], False),
    ([TRACKER, '    ' + logs.REFUSAL, 'ConnectFailure', ''], False),
    ([TRACKER, *SOURCE, 'ValueError', '', 'The above exception', '',
      'Traceback', TRACKER, '    ' + logs.REFUSAL], True),
    ([QUOTED], False)])
def test_failures_are_tracebacks_that_end_in_this_package(
        layout, frames, is_ours):
    written = logs.NewLines(layout)
    write(layout, 'nova-scheduler.log', *map(START.__add__, frames))
    assert is_ours == (written.failures() == [START + TRACKER])
    assert is_ours == bool(written.failures())


@pytest.mark.parametrize('error', [
    'CPUPinningInvalid', 'CPUUnpinningInvalid', 'CPUPinningUnknown'])
def test_recount_error_of_pinned_cpus_is_a_failure(layout, error):
    written = logs.NewLines(layout)
    prefix = START + 'Error updating resources for node compute1.: '
    pinned = prefix + 'nova.exception.%s: CPU set to pin [1] ...' % error
    write(layout, 'nova-scheduler.log',
          pinned, prefix + 'DBConnectionError', START + NOVA)
    assert [pinned] == written.failures()


def test_ended_leases_are_counted_by_reason(layout):
    written = logs.NewLines(layout)
    ended = START + '[instance: 1] A lease has ended: '
    write(layout, 'compute.log',
          ended + 'no need.', ended + 'no need.', ended + 'over.')
    assert {'no need': 2, 'over': 1} == logs.count_ended_leases(written)
