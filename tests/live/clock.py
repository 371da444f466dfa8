# SPDX-License-Identifier: Apache-2.0

"""Runs a program of Python with a clock that can be set while it runs.

Used as ``clock.py FILE PROGRAM [ARGUMENT...]``. It reads each second from the
file by how many seconds its clock is ahead, a negative number if it is behind.
What counts the seconds between two events is right, and so are the clocks of
its children.
"""

import datetime
import pathlib
import runpy
import sys
import threading
import time

import time_machine


def main(file, *command):
    """Run the program."""
    now = datetime.datetime.now(datetime.timezone.utc)
    with time_machine.travel(now, tick=True) as traveller:
        threading.Thread(target=_follow, args=(pathlib.Path(file), traveller),
                         daemon=True).start()
        sys.argv = list(command)
        runpy.run_path(command[0], run_name='__main__')


def _follow(file, traveller):
    ahead = 0
    while True:
        # It is empty for a moment while it is written.
        wanted = int(file.read_text() or ahead)
        traveller.shift(wanted - ahead)
        ahead = wanted
        time.sleep(1)


if __name__ == '__main__':
    main(*sys.argv[1:])
