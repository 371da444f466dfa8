# SPDX-License-Identifier: Apache-2.0

"""Processes of a live cloud, each in a session of its own.

A process outlives the command that starts it. For each process, a file in the
directory ``run`` has its PID and creation time. With the creation time, psutil
tells the process from a later one with the same PID.
"""

import json
import operator
import os
import signal
import socket
import subprocess
import time

import psutil
import tenacity

from tests.live import layout as layouts

#: Maximum seconds of the start and stop of a service, and of a command.
START_SECONDS = 120
STOP_SECONDS = 20
COMMAND_SECONDS = 300


class Processes:
    """The processes of one cloud, by name."""

    def __init__(self, layout):
        self._layout = layout

    def log(self, name):
        """Return the path of the log of a process."""
        return self._layout.log / (name + '.log')

    def run(self, name, *command, environment=None):
        """Run a command and wait for its end.

        :raises RuntimeError: if the command fails
        """
        with open(self.log(name), 'ab') as log:
            done = subprocess.run(
                [str(word) for word in command], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self._layout.directory,
                env={**os.environ, **(environment or {})},
                timeout=COMMAND_SECONDS)
        if done.returncode:
            raise RuntimeError('%s failed, see %s.' % (
                ' '.join(map(str, command)), self.log(name)))

    def start(self, name, *command, environment=None):
        """Start a process unless it runs, and append its output to its log."""
        if self.is_running(name):
            return
        with open(self.log(name), 'ab') as log:
            process = psutil.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self._layout.directory,
                env={**os.environ, **(environment or {})},
                start_new_session=True)
        self._file(name).write_text(json.dumps(
            {'pid': process.pid, 'create_time': process.create_time(),
             'started': time.time()}))

    def _file(self, name):
        return self._layout.run / (name + '.json')

    def names(self):
        """Return the names of all started processes, the last one first."""
        started = {file.stem: json.loads(file.read_text())['started']
                   for file in self._layout.run.glob('*.json')}
        return sorted(started, key=started.get, reverse=True)

    def pid(self, name):
        """Return the PID of a process that runs, or None.

        The PID is also the ID of its process group.
        """
        try:
            found = json.loads(self._file(name).read_text())
            process = psutil.Process(found['pid'])
            if process.create_time() == found['create_time'] and (
                    process.status() != psutil.STATUS_ZOMBIE):
                return process.pid
        except (FileNotFoundError, psutil.NoSuchProcess):
            pass
        return None

    def is_running(self, name):
        """Return whether a process runs."""
        return self.pid(name) is not None

    def stop(self, name, number=signal.SIGTERM):
        """Send a signal to a process group and wait until it has ended.

        Processes that still run after STOP_SECONDS are killed.
        """
        pid = self.pid(name)
        if pid is not None:
            group = [process for process in psutil.process_iter()
                     if _group_of(process.pid) == pid]
            os.killpg(pid, number)
            _, alive = psutil.wait_procs(group, STOP_SECONDS)
            for process in alive:
                process.kill()
            psutil.wait_procs(alive, STOP_SECONDS)
        self._file(name).unlink(missing_ok=True)

    def wait_for_port(self, name, listener):
        """Wait until a process listens on the port of a listener.

        :raises RuntimeError: if the process ends, or START_SECONDS are over
        """
        address = layouts.ADDRESS, self._layout.port(listener)

        def listens():
            with socket.create_connection(address, 1):
                return True

        self.wait(name, listens)

    def wait(self, name, is_ready):
        """Wait until a function returns a true value, and return the value.

        :raises RuntimeError: if the process ends, or START_SECONDS are over
        """
        @tenacity.retry(
            retry=tenacity.retry_if_not_exception_type(_Ended) |
            tenacity.retry_if_result(operator.not_),
            stop=tenacity.stop_after_delay(START_SECONDS),
            wait=tenacity.wait_fixed(0.2))
        def check():
            if not self.is_running(name):
                raise _Ended('%s ended, see %s.' % (name, self.log(name)))
            return is_ready()

        try:
            return check()
        except tenacity.RetryError as error:
            raise RuntimeError(
                '%s is not ready after %d seconds (%s), see %s.' % (
                    name, START_SECONDS, error.last_attempt.exception() or
                    error.last_attempt.result(), self.log(name))) from error


class _Ended(RuntimeError):
    """The process ended before it was ready."""


def _group_of(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
