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

"""Ends a play at once where a signal asks for it.

Nova and its test code wait for threads of their own, and would let an
exception in the main thread pass unnoticed, or hold it up for a minute.
"""

import contextlib
import os
import signal
import tempfile

#: Exit status of a play that a signal ended.
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A shell takes the place of the process: no thread of Nova goes on writing
#: files, and nothing that eventlet has replaced in Python's library is used.
LAST_COMMANDS = 'echo Interrupted. >&2; rm -rf "$0"; exit %d' % INTERRUPTED


@contextlib.contextmanager
def ends_process():
    """Let SIGINT and SIGTERM end the process with :data:`INTERRUPTED`.

    All temporary files that are made meanwhile are in one directory, which
    is gone afterwards, be it by a signal. For the main thread only.
    """
    with tempfile.TemporaryDirectory(
            prefix='nova-prio-', ignore_cleanup_errors=True) as directory:
        def end(number, frame):
            for each in SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            try:
                os.execv('/bin/sh', ['sh', '-c', LAST_COMMANDS, directory])
            finally:
                os._exit(INTERRUPTED)

        before = {each: signal.signal(each, end) for each in SIGNALS}
        tempdir, tempfile.tempdir = tempfile.tempdir, directory
        try:
            yield
        finally:
            tempfile.tempdir = tempdir
            for each, handler in before.items():
                signal.signal(each, handler)
