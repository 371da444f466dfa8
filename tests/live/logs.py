# SPDX-License-Identifier: Apache-2.0

"""What Nova's services say from a moment on."""

import re

UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
#: What nova-conductor says of a server that another host is to build.
FORMER = 'Error from last host'
#: What nova-compute says where its books do not add up, on one line.
RECOUNT = re.compile('Error updating resources for node .*CPU(Pinning|Unpin)')
#: A frame of a traceback, by the path; the next one is within so many lines.
FRAME = re.compile(r'  File "([^"]*)", line \d+, in [\w<>.]+$')
WITHIN = 4


class Written:
    """What they have written to their logs since this was made."""

    def __init__(self, layout):
        self._sizes = {file: file.stat().st_size for file in (
            layout.log / 'compute.log', *layout.log.glob('nova-*.log'))}

    def lines(self, prefix=''):
        """Return the lines in files with names that begin so.

        Line feeds alone end one.
        """
        found = []
        for file, size in self._sizes.items():
            if file.name.startswith(prefix):
                with open(file, 'rb') as log:
                    log.seek(size)
                    found += log.read().decode().split('\n')
        return found

    def failures(self):
        """Return the innermost lines of tracebacks that are of this package.

        What it raises for Nova to catch, Nova does not log so. Recounts that
        fail since a CPU seems to be another's are returned as well.
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
    """Return UUIDs, also of servers that could not be built on a first host.

    :param written: Written
    """
    return {found[0] for line in written.lines('nova-conductor')
            if FORMER in line for found in UUID.finditer(line)}
