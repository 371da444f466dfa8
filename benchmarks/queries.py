# SPDX-License-Identifier: Apache-2.0

"""Count the statements that databases get."""

import collections
import contextlib

import sqlalchemy


@contextlib.contextmanager
def counting(engines):
    """Yield a Counter, name of a database -> number of its statements.

    Statements of other services in this process count too.

    :param engines: dict, name -> engine
    """
    counter = collections.Counter()
    listeners = []

    def make_listener(name):
        def count(*_args):
            counter[name] += 1
        return count

    for name, engine in engines.items():
        listener = make_listener(name)
        sqlalchemy.event.listen(engine, 'before_cursor_execute', listener)
        listeners.append((engine, listener))
    try:
        yield counter
    finally:
        for engine, listener in listeners:
            sqlalchemy.event.remove(
                engine, 'before_cursor_execute', listener)
