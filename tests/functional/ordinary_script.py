# SPDX-License-Identifier: Apache-2.0

"""The script that is played with stock Nova and with this package."""

from tests.functional import ordinary_operations
from tests.fuzz import faults

CHECK, LAST_CHECK, PREPARATION = faults.FAILURES.values()


class Script(ordinary_operations.Operations):
    """Chapters: methods that begin with an instance of each kind."""

    def play(self, *chapters):
        """Call chapters, run the periodic tasks after each one."""
        for chapter in chapters:
            chapter(self)
            self._run_periodic_tasks()

    def create(self):
        """One of each kind."""
        for flavor in 'plain', 'pinned', 'mixed', 'numa', 'device':
            self._create(flavor, flavor, host='one')

    def fail_to_create(self):
        """One is too large, one does not start on any host."""
        self._create('none', 'large', status='ERROR')
        with self._cloud.no_guest_starts():
            self._create('unstarted', 'numa', status='ERROR')
        self._delete('none', 'unstarted')

    def migrate_live(self):
        """Live migrations; no host recounts between."""
        for name in 'plain', 'pinned', 'numa', 'device':
            self._live(name, 'two')
        self._delete('pinned')
        # Until then, Nova counts the instance that has arrived and is gone.
        self._run_periodic_tasks()
        self._create('next', 'pinned', host='two')
        self._act('numa', 'SHUTOFF', **{'os-stop': None})
        self._act('numa', **{'os-start': None})
        self._live('numa', 'one')

    def fail_to_migrate_cold(self):
        """Failures whose records do not end, and a move without a host."""
        with self._cloud.no_disk_moves():
            for name in 'next', 'numa':
                self._act(name, migrate={'host': 'two'})
        self._act('next', migrate={'host': 'three'})
        self._fail_to_migrate('mixed', True)

    def move_while_hosts_recount(self):
        """Moves of all types, with recounts in the middle of them."""
        self._begin_recounts()
        self._act('plain', 'VERIFY_RESIZE', resize={'flavorRef': 'plain-2'})
        self._act('numa', 'VERIFY_RESIZE', resize={'flavorRef': 'pinned'})
        self._act('next', 'VERIFY_RESIZE', migrate={'host': 'two'})
        self._restart('two')
        self._act('plain', confirmResize=None)
        self._act('numa', revertResize=None)
        self._act('next', confirmResize=None)
        self._live('numa', 'two')
        self._live('device', 'one')
        self._fail_to_migrate('mixed', LAST_CHECK)
        with self._only('one'):
            for flavor, end in (('pinned', 'confirmResize'),
                                ('numa', 'revertResize')):
                self._act('mixed', 'VERIFY_RESIZE',
                          resize={'flavorRef': flavor})
                self._act('mixed', **{end: None})
        self._act('next', 'ERROR', **{'os-resetState': {'state': 'error'}})
        self._cloud.host_down('two')
        self._act('next', status=None, evacuate={})
        self._cloud.host_up('two')

    def fail_to_migrate_live(self):
        """In libvirt, in a check before or after the claim, and so on."""
        for name, failures in (
                ('numa', (CHECK, LAST_CHECK, True)),
                ('pinned', (LAST_CHECK, PREPARATION)),
                ('device', (LAST_CHECK,))):
            for failure in failures:
                self._fail_to_migrate(name, failure)
        self._fail_to_migrate('plain', False)
        for name, host in (('numa', 'two'), ('device', 'two'),
                           ('pinned', 'two'), ('pinned', 'one')):
            self._live(name, host)

    def abort_live_migrations(self):
        """One that runs and one that is queued behind it."""
        with self._cloud.hold_migration(self._uuids['pinned']) as is_aborted:
            self._begin('pinned', 'running')
            self._begin('plain', 'queued')
            for name in 'plain', 'pinned':
                self._abort(name)
            self._cloud.wait(is_aborted, 'abort')
        for name in 'plain', 'pinned':
            self._settle(name)
            self._reset(name)

    def shelve(self):
        """Unshelve on the same host, elsewhere, and in vain."""
        self._cloud.flags(shelved_offload_time=-1)
        self._act('numa', 'SHELVED', shelve=None)
        self._act('numa', unshelve=None)
        self._cloud.flags(shelved_offload_time=0)
        self._act('next', 'SHELVED_OFFLOADED', shelve=None)
        with self._cloud.no_guest_starts():
            self._act('next', 'SHELVED_OFFLOADED', unshelve=None)
        self._act('next', unshelve={'host': 'one'})

    def evacuate(self):
        """One succeeds, one fails, one is deleted while its host is down."""
        self._create('left', 'pinned', host='two')
        self._cloud.host_down('two')
        self._act('numa', 'SHUTOFF', evacuate={})
        with self._cloud.no_guest_starts():
            self._act('left', 'ERROR', evacuate={})
        self._reset('left')
        self._delete('device')
        self._run_periodic_tasks()
        self._cloud.host_up('two')
        self._cloud.remove_orphan_guests('two')

    def restart_during_migrations(self):
        """Each leaves a migration that only some restarts end."""
        live = {'os-migrateLive': {'host': 'two', 'block_migration': 'auto'}}
        cold = {'migrate': {'host': 'two'}}
        for name, action, method, task_state, status in (
                ('plain', live, '_do_live_migration', 'migrating', 'running'),
                ('pinned', live, '_do_live_migration', 'migrating', 'queued'),
                ('mixed', cold, 'resize_instance', 'resize_prep',
                 'pre-migrating')):
            self._stop_during(name, action, method, task_state, status)
            self._restart('one')
            self._run_periodic_tasks()
        self._live('mixed', 'two')

    def shrink(self):
        """Leave less shared CPUs to a host than are in use."""
        self._create('wide', 'wide', host='three')
        self._cloud._host_options['three']['compute', 'cpu_shared_set'] = '0'
        self._restart('three')
        self._create('refused', 'plain', host='three', status='ERROR')

    def delete(self):
        """All that are left."""
        self._delete(*self._present)

    MOVES = (create, migrate_live, shelve, fail_to_migrate_cold,
             move_while_hosts_recount, shrink, delete)
    FAILURES = (create, fail_to_create, fail_to_migrate_live,
                abort_live_migrations, evacuate, restart_during_migrations,
                delete)
