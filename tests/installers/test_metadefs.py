# SPDX-License-Identifier: Apache-2.0

"""The metadata definitions, with the schema and the loader of Glance."""

import json
import pathlib

from glance.api.v2 import metadef_namespaces
from glance.db.sqlalchemy import metadata
from glance.db.sqlalchemy import models_metadef
import jsonschema
import pytest
import sqlalchemy

from nova_prio.model import aggregate_metadata
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs

ROOT = pathlib.Path(__file__).parents[2]
DIRECTORY = ROOT / 'etc' / 'metadefs'
FILES = sorted(DIRECTORY.glob('*.json'))


def read_keys():
    """Return the keys with their prefixes: name -> definition."""
    keys = {}
    for path in FILES:
        definitions = json.loads(path.read_text())
        association, = definitions['resource_type_associations']
        for name, definition in definitions['properties'].items():
            keys[association.get('prefix', '') + name] = definition
    return keys


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_schema_of_glance_accepts_the_file(path):
    schema = metadef_namespaces.get_schema().raw()
    jsonschema.validate(json.loads(path.read_text()), schema)


def test_keys_and_values_are_those_of_the_package():
    keys = read_keys()
    assert (list(cpu_capacity.PRIORITIES) ==
            keys[flavor_specs.EXTRA_SPEC]['enum'])
    # The key "priority" has the same meaning as "priority_mix", and clouds
    # use it for other purposes.
    assert keys.keys() == {
        flavor_specs.EXTRA_SPEC, aggregate_metadata.AGGREGATE_KEYS[0],
        aggregate_metadata.ORDINARY_KEY,
        *aggregate_metadata.MULTIPLIER_KEYS}


def test_glance_loads_the_files(tmp_path):
    engine = sqlalchemy.create_engine('sqlite:///%s' % (tmp_path / 'glance'))
    models_metadef.register_models(engine)
    metadata.db_load_metadefs(engine, str(DIRECTORY))
    with engine.connect() as connection:
        rows = connection.execute(sqlalchemy.text(
            'SELECT name FROM metadef_properties')).scalars()
        assert {name.split(':')[-1] for name in read_keys()} == set(rows)
