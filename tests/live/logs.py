# SPDX-License-Identifier: Apache-2.0

"""The lines that Nova's services log after a point in time."""

import collections
import re

UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
#: Text of nova-conductor when it schedules a server again.
RESCHEDULED = 'Error from last host'
#: Line of nova-compute if its recount fails because of pinned CPUs, or if it
#: does not start a guest because of them.
PINS = re.compile('Error updating resources for node .*CPU(Pinning|Unpin)|'
                  'cannot start on its CPUs')
#: Line of nova-compute if a recount has ended a lease, with the reason.
LEASE_ENDED = re.compile(r'A lease has ended: ([^.]*)')
#: A frame of a traceback. The next frame begins at most FRAME_LINES later.
FRAME = re.compile(r'  File "([^"]*)", line \d+, in [\w<>.]+$')
FRAME_LINES = 4
#: Source line of a frame that refuses a claim.
REFUSAL = 'raise exception.ComputeResourcesUnavailable('


class NewLines:
    """The log lines since this object was created."""

    def __init__(self, layout):
        self._sizes = {file: file.stat().st_size for file in (
            layout.log / 'compute.log', *layout.log.glob('nova-*.log'))}

    def lines(self, prefix=''):
        """Return the lines of log files whose names have the prefix.

        Only a line feed ends a line.
        """
        found = []
        for file, size in self._sizes.items():
            if file.name.startswith(prefix):
                with open(file, 'rb') as log:
                    log.seek(size)
                    found += log.read().decode().split('\n')
        return found

    def failures(self):
        """Return the innermost frames of tracebacks that are in this package.

        Nova logs no traceback of an exception that it expects. A frame that
        refuses a claim, for example while Placement is down, is no failure.
        The lines of PINS are returned as well.
        """
        lines = self.lines()
        frames = {number: found[1] for number, line in enumerate(lines)
                  if (found := FRAME.search(line))}
        about_pins = [line for line in lines if PINS.search(line)]
        return about_pins + [
            lines[number] for number, path in frames.items()
            if '/nova_prio/' in path and not any(
                number + more in frames for more in range(1, FRAME_LINES + 1))
            and not any(REFUSAL in line
                        for line in lines[number + 1:number + 2])]


def rescheduled_servers(written):
    """Return the UUIDs of servers that nova-conductor scheduled again.

    :param written: NewLines
    """
    return {found[0] for line in written.lines('nova-conductor')
            if RESCHEDULED in line for found in UUID.finditer(line)}


def count_ended_leases(written):
    """Count the leases that recounts have ended: Counter, reason -> int.

    :param written: NewLines
    """
    return collections.Counter(
        found[1] for line in written.lines()
        if (found := LEASE_ENDED.search(line)))
