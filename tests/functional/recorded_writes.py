# SPDX-License-Identifier: Apache-2.0

"""Record the writes to the databases of Nova and to Placement.

``Recorder`` records the writes. ``by_record`` replaces the parts that differ
from run to run, so that the writes of two runs can be compared.
"""

import collections
import io
import json
import re
import time
import typing

import fixtures
from oslo_messaging.rpc import dispatcher
from placement import handler
from sqlalchemy import event
import webob.exc

PLACEMENT = 'Placement'
_INSERT = re.compile(r'INSERT INTO "?(\w+)"? \(([^)]*)\) VALUES')
_UPDATE = re.compile(r'UPDATE "?(\w+)"? SET (.*?)(?: WHERE (.*))?$')
_DELETE = re.compile(r'DELETE FROM "?(\w+)"?(?: WHERE (.*))?$')
_ASSIGNMENT = re.compile(r'"?(\w+)"?=(.*?)(?:, (?="?\w+"?=)|$)')
_CONDITION = re.compile(r'(\w+)"? (?:=|IN) \(?\?')
#: A row belongs to the object that the first of these columns names.
_OWNERS = ('instance_uuid', 'action_id', 'compute_node_id', 'uuid', 'host',
           'id')
_UUID = re.compile('[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}')
#: Pattern of a text that differs from run to run -> its replacement.
_VARYING = {re.compile(pattern): text for pattern, text in {
    r'\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?': '<time>',
    r'\br-[0-9a-z]{8}\b': '<reservation>',
    # Of a resource provider: others write to it as well.
    r'(?<!consumer_)(generation\W+)\d+': r'\1<generation>',
}.items()}


class Write(typing.NamedTuple):
    """One row that a statement wrote, or one request to Placement.

    ``place`` is the name of the database, or Placement. ``target`` is the
    table or the path, and ``row`` identifies the row in its table. ``values``
    are the columns or the body of the request. ``rest`` is the rest of the
    statement or the status of the answer. ``step`` is the operation.
    """

    place: str
    target: str
    row: tuple
    verb: str
    values: dict
    rest: str
    step: str


class Recorder(fixtures.Fixture):
    """Record each write in ``writes``, in the order of the commits.

    :param engines: dict, name of a database -> its SQLAlchemy engine
    """

    def __init__(self, engines):
        self.writes = []
        self.step = ''
        self._engines = engines
        # Connection -> the writes of its transaction.
        self._uncommitted = collections.defaultdict(list)
        # Name of a database, table, id of a row -> what identifies the row.
        self._rows = {}
        self._counts = collections.Counter()
        self._last_busy = time.monotonic()
        # Messages that a service handles now.
        self._handled = set()

    def _setUp(self):
        for name, engine in self._engines.items():
            for listened, listener in (
                    ('after_cursor_execute', self._listener(name)),
                    ('commit', self._committed),
                    ('rollback', self._rolled_back)):
                event.listen(engine, listened, listener)
                self.addCleanup(event.remove, engine, listened, listener)
        stock = handler.PlacementHandler.__call__
        self.useFixture(fixtures.MonkeyPatch(
            'placement.handler.PlacementHandler.__call__',
            lambda *args: self._handle(stock, *args)))
        dispatch = dispatcher.RPCDispatcher.dispatch

        def dispatch_and_note(dispatched, message):
            self._handled.add(id(message))
            try:
                return dispatch(dispatched, message)
            finally:
                self._handled.discard(id(message))
                self._last_busy = time.monotonic()

        self.useFixture(fixtures.MonkeyPatch(
            'oslo_messaging.rpc.dispatcher.RPCDispatcher.dispatch',
            dispatch_and_note))

    def is_quiet(self, seconds):
        """Return whether no service was busy for some seconds."""
        return not self._handled and (
            time.monotonic() - self._last_busy > seconds)

    def _listener(self, database):
        def executed(connection, cursor, statement, parameters, _, is_many):
            # A condition that no row meets writes nothing.
            if cursor.rowcount:
                for parsed in _parsed(
                        statement, parameters if is_many else [parameters]):
                    self._uncommitted[connection].append(
                        self._write(database, cursor.lastrowid, *parsed))

        return executed

    def _write(self, database, row_id, table, verb, values, found, rest):
        if verb == 'INSERT':
            found = {'id': row_id}
            self._rows[database, table, row_id] = self._identify(
                database, table, values)
        row = self._rows.get((database, table, found.get('id')))
        if row is None:
            row = tuple(found[name] for name in _OWNERS if name in found)[:1]
        else:
            # Rows that are created at the same time get their ids by chance.
            rest = re.sub(r'\.id = \d+', '.id', rest)
        return Write(database, table, row, verb, values, rest, self.step)

    def _identify(self, database, table, values):
        """Return the owner of a new row, and a number if it has others."""
        name = next((name for name in _OWNERS if values.get(name)), None)
        owner = (values.get(name),)
        if name == 'action_id':
            # Source and destination may begin theirs in any order.
            owner = (*self._rows.get(
                (database, 'instance_actions', *owner), owner),
                values['event'])
        self._counts[database, table, owner] += 1
        number = self._counts[database, table, owner]
        return owner if number == 1 else (*owner, number)

    def _committed(self, connection):
        self.writes += self._uncommitted.pop(connection, ())
        self._last_busy = time.monotonic()

    def _rolled_back(self, connection):
        self._uncommitted.pop(connection, None)

    def _handle(self, stock, application, environ, start_response):
        verb, path = environ['REQUEST_METHOD'], environ['PATH_INFO']
        if verb == 'GET':
            return stock(application, environ, start_response)
        text = environ['wsgi.input'].read(int(environ['CONTENT_LENGTH'] or 0))
        environ['wsgi.input'] = io.BytesIO(text)
        answers = []

        def start(status, *args):
            answers.append(status)
            return start_response(status, *args)

        try:
            return stock(application, environ, start)
        except webob.exc.HTTPException as error:
            answers.append(error.status)
            raise
        finally:
            body = json.loads(text or b'{}')
            # One request may write the allocations of many consumers.
            parts = ({'/allocations/' + uuid: each
                      for uuid, each in body.items()}
                     if path == '/allocations' else {path: body})
            self.writes += [
                Write(PLACEMENT, part, (), verb, each, ' '.join(answers),
                      self.step) for part, each in parts.items()]
            self._last_busy = time.monotonic()


def _parsed(statement, rows):
    """Yield table, verb, values, condition (dict and text) of each row."""
    statement = ' '.join(statement.split())
    verb = statement.split()[0]
    if verb == 'INSERT':
        table, columns = _INSERT.match(statement).groups()
        names = [name.strip(' "') for name in columns.split(',')]
        for row in rows:
            for start in range(0, len(row), len(names)):
                yield table, verb, dict(zip(
                    names, row[start:start + len(names)])), {}, ''
    elif verb in ('UPDATE', 'DELETE'):
        table, *assigned, condition = (
            _UPDATE if verb == 'UPDATE' else _DELETE).match(statement).groups()
        for row in rows:
            row, values = list(row), {}
            for name, text in _ASSIGNMENT.findall(''.join(assigned)):
                values[name] = row.pop(0) if text == '?' else _filled(
                    text, row)
            found = dict(zip(_CONDITION.findall(condition or ''), row))
            yield table, verb, values, found, _filled(condition or '', row)


def _filled(text, parameters):
    """Put parameters in the places of question marks, and remove them."""
    return re.sub(r'\?', lambda _: repr(parameters.pop(0)), text)


def by_record(writes, names):
    """Return the writes of each record, as text that can be compared.

    :param writes: list of Write
    :param names: dict, UUID -> name to replace it with; all other UUIDs are
        replaced with numbers, in the order of their appearance in a record
    :returns: dict, record -> list of (text, step), in their order
    """
    names = {**names, **_names(writes, names)}
    found = collections.defaultdict(list)
    numbers = collections.defaultdict(dict)
    for write in writes:
        record = _UUID.sub(
            lambda uuid: names.get(uuid[0], '<uuid>'),
            ' '.join(map(str, (write.place, write.target, *write.row))))
        text = '\n  '.join([('%s %s' % (write.verb, write.rest)).strip()] + [
            '%s: %r' % item for item in write.values.items()])
        for pattern, replacement in _VARYING.items():
            text = pattern.sub(replacement, text)
        known = numbers[record]
        found[record].append((_UUID.sub(
            lambda uuid: names.get(uuid[0]) or '<uuid %d>' % known.setdefault(
                uuid[0], len(known) + 1), text), write.step))
    return found


def _names(writes, names):
    """Return names for the UUIDs of hosts, services and migrations."""
    found, migrations = {}, collections.Counter()
    for table, values in ((write.target, write.values) for write in writes
                          if write.verb == 'INSERT'):
        if table in ('compute_nodes', 'services'):
            found[values['uuid']] = '<%s %s>' % (table, values['host'])
        elif table == 'migrations':
            owner = names.get(values['instance_uuid'])
            migrations[owner] += 1
            found[values['uuid']] = '<migration %d of %s>' % (
                migrations[owner], owner)
    return found
