# SPDX-License-Identifier: Apache-2.0

"""Questions about migrations that their status alone does not answer."""

import datetime

import nova.conf
from nova import objects
from oslo_utils import timeutils
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


@pytest.mark.parametrize('record, seconds, is_quiet', [
    (objects.Instance(), 59, False),
    (objects.Instance(), 61, True),
    (objects.Migration(status='running'), 61, True),
    # The source may wait for the destination, and for its network.
    (objects.Migration(status='preparing'), 61, False),
    (objects.Migration(status='preparing'), 60 + 1800 + 300 - 1, False),
    (objects.Migration(status='preparing'), 60 + 1800 + 300 + 1, True),
])
def test_record_is_quiet_if_no_service_works_on_it(record, seconds, is_quiet):
    conf = nova.conf.CONF
    assert (1800, 300) == (conf.long_rpc_timeout, conf.vif_plugging_timeout)
    record.created_at = None
    record.updated_at = timeutils.utcnow(True) - datetime.timedelta(
        seconds=seconds)
    assert is_quiet == migration_states.is_quiet(record)
