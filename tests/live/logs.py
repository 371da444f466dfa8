# SPDX-License-Identifier: Apache-2.0

"""The lines that Nova's services log after a point in time."""

import re

UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
#: Text of nova-conductor when another host must build a server.
FORMER = 'Error from last host'
#: Line of nova-compute if its recount fails because of pinned CPUs.
RECOUNT = re.compile('Error updating resources for node .*CPU(Pinning|Unpin)')
#: A frame of a traceback, and the maximum number of lines to the next frame.
FRAME = re.compile(r'  File "([^"]*)", line \d+, in [\w<>.]+$')
WITHIN = 4


class Written:
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

        Nova logs no traceback of the exceptions that it expects. The lines of
        recounts that failed because of pinned CPUs are returned as well.
        """
        lines = self.lines()
        frames = {number: found[1] for number, line in enumerate(lines)
                  if (found := FRAME.search(line))}
        recounts = [line for line in lines if RECOUNT.search(line)]
        return recounts + [
            lines[number] for number, path in frames.items()
            if '/nova_prio/' in path and not any(
                number + more in frames for more in range(1, WITHIN + 1))]


def built_anew(written):
    """Return UUIDs of servers that nova-conductor scheduled again.

    :param written: Written
    """
    return {found[0] for line in written.lines('nova-conductor')
            if FORMER in line for found in UUID.finditer(line)}
