# SPDX-License-Identifier: Apache-2.0

"""The SQL that the databases of a process share.

Each embedded cloud has databases of its own. Compiling their SQL again takes
an eighth of the processor time of a scenario. The key of a statement contains
the dialect of SQLAlchemy, and each database has another dialect object.
Therefore these objects must be equal.
"""

import pkgutil

import fixtures
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy import util

# SQL that SQLAlchemy has compiled for any database of this process.
_COMPILED_SQL = util.LRUCache(5000)
_CREATE_ENGINE = 'oslo_db.sqlalchemy.engines.create_engine'


class SharedSQLFixture(fixtures.Fixture):
    """Lets all databases of this process use the same compiled SQL."""

    def _setUp(self):
        """Make all dialects of sqlite equal, and let new engines share."""
        dialect = pysqlite.SQLiteDialect_pysqlite
        self.useFixture(fixtures.MockPatchObject(
            dialect, '__hash__', _hash_class))
        self.useFixture(fixtures.MockPatchObject(
            dialect, '__eq__', _has_same_class))
        create = pkgutil.resolve_name(_CREATE_ENGINE)

        def create_engine(*args, **kwargs):
            """Return an engine that uses the compiled SQL of the process."""
            engine = create(*args, **kwargs)
            engine.update_execution_options(compiled_cache=_COMPILED_SQL)
            return engine

        self.useFixture(fixtures.MonkeyPatch(_CREATE_ENGINE, create_engine))


def _hash_class(dialect):
    """Return a hash that all dialects of a class have."""
    return hash(type(dialect))


def _has_same_class(dialect, other):
    """Return whether two dialects have the same class."""
    return type(dialect) is type(other)
