# SPDX-License-Identifier: Apache-2.0

"""An evacuation that has ended may still move its instance."""

from nova import objects
import pytest

from nova_prio.objects import migration_states

objects.register_all()


@pytest.mark.parametrize('status, host, context_id, is_unfinished', [
    # The source has started, and the destination has not finished.
    ('completed', 'source', 1, True),
    # The destination finished after the instance was read.
    ('done', 'source', 1, True),
    ('failed', 'source', 1, False),
    # The destination has set the host, and not yet deleted the context.
    ('completed', 'destination', 1, False),
    # The instance has come back, or a later move has failed.
    ('completed', 'source', None, False),
    ('completed', 'source', 2, False),
])
def test_context_tells_that_evacuation_is_unfinished(
        status, host, context_id, is_unfinished):
    migration = objects.Migration(
        id=1, migration_type='evacuation', status=status,
        source_compute='source', dest_compute='destination')
    context = None
    if context_id:
        context = objects.MigrationContext(migration_id=context_id)
    instance = objects.Instance(host=host, migration_context=context)
    assert is_unfinished == migration_states.is_unfinished_evacuation(
        instance, migration)
