# SPDX-License-Identifier: Apache-2.0

"""Run a Python program with a clock that can be set while it runs.

Usage: ``clock.py FILE PROGRAM [ARGUMENT...]``. Each second, the module reads
from the file by how many seconds the clock must be ahead; a negative number
sets the clock back. Monotonic clocks and child processes are not affected.
"""

import datetime
import pathlib
import runpy
import sys
import threading
import time

import time_machine


def main(file, *command):
    """Run the program with the clock that the file sets."""
    now = datetime.datetime.now(datetime.timezone.utc)
    with time_machine.travel(now, tick=True) as traveller:
        threading.Thread(target=_follow, args=(pathlib.Path(file), traveller),
                         daemon=True).start()
        sys.argv = list(command)
        runpy.run_path(command[0], run_name='__main__')


def _follow(file, traveller):
    """Read the file each second and set the clock."""
    ahead = 0
    while True:
        # The file is empty for a moment while a test writes it.
        wanted = int(file.read_text() or ahead)
        traveller.shift(wanted - ahead)
        ahead = wanted
        time.sleep(1)


if __name__ == '__main__':
    main(*sys.argv[1:])
