# SPDX-License-Identifier: Apache-2.0

"""The explorer finds each fault that is planted in the package.

Most tests name a case, which passes without the fault.
"""

import pkgutil

import fixtures
import testtools

from nova_prio.model import leases
from nova_prio.objects import lease_end
from nova_prio.virt.libvirt import driver
from nova_prio.virt.libvirt import live_migration
from tests.explore import cases
from tests.explore import explorer
from tests.explore import results
from tests.functional import double_pins

_LEASES = 'nova_prio.model.leases.Leases.'
#: The source has a lease that it does not count.
_REVERT = 'revert:high:create_at_source:_BaseCallContext.cast#2'
_NOTHING = ':high:%s:None' % cases.NOTHING


def _do_nothing(*args, **kwargs):
    """Leave a step out."""


class Mutants(testtools.TestCase):
    """Each test plants a fault."""

    def plant(self, name, function):
        """Replace a function of the package."""
        self.assertTrue(callable(pkgutil.resolve_name(name)))
        self.useFixture(fixtures.MonkeyPatch(name, function))

    def make_player(self):
        """Return a new results.State, and an Explorer that writes to it."""
        state = results.State()
        player = explorer.Explorer(state)
        self.addCleanup(player.close)
        return state, player

    def assert_found(self, case):
        """Assert that a case has a violation."""
        state, player = self.make_player()
        player.play_case(case)
        self.assertEqual([case], state.list_violations())

    def let_recounts_end_leases(self):
        """A lease ends in a recount that does not count it."""
        def end_uncounted(ends, context, name):
            for uuid, each in ends._leases.list_all():
                if not each.is_counted:
                    double_pins.let_go(ends._leases, uuid)
                    ends._leases.end(uuid, each)

        self.plant('nova_prio.compute.lease_ends.LeaseEnds.find_ended',
                   end_uncounted)

    def test_recount_ends_lease(self):
        self.let_recounts_end_leases()
        self.assert_found(_REVERT)

    def test_sweep_finds_recount_that_ends_lease(self):
        self.let_recounts_end_leases()
        state, player = self.make_player()
        player.sweep('revert', 'high')
        self.assertNotEqual([], state.list_violations())

    def test_recount_ends_lease_and_gate_is_off(self):
        self.let_recounts_end_leases()
        self.plant('nova_prio.compute.start_gate.StartGate.check',
                   _do_nothing)
        self.assert_found(_REVERT)

    def test_evidence_is_ignored(self):
        self.plant('nova_prio.objects.lease_end.read_need',
                   lambda *args: lease_end.Need.OVER)
        self.assert_found(_REVERT)

    def test_cpu_is_leased_twice(self):
        def begin(host_leases, uuid, new):
            host_leases._sets.setdefault(uuid, []).append(new)
            return {}

        self.plant(_LEASES + 'begin', begin)
        self.plant(_LEASES + 'find_cpus', lambda *args, **kwargs: frozenset())
        self.assert_found(_REVERT)

    def test_restart_forgets_revert(self):
        self.plant('nova_prio.compat.workarounds.find_returning',
                   lambda *args: ())
        self.assert_found('revert:high:kill_source:_BaseCallContext.cast#2')

    def test_call_of_claim_is_not_noted(self):
        self.plant(_LEASES + 'begin_call', _do_nothing)
        self.assert_found('evacuate:high:return_source:'
                          'PriorityResourceTracker.finish_evacuation#1')

    def test_start_is_not_noted(self):
        self.plant(_LEASES + 'begin_start', _do_nothing)
        self.plant(_LEASES + 'end_start', _do_nothing)
        self.assert_found('migrate:high:delete_it_and_create:'
                          'LibvirtDriver._create_guest#1')

    def test_lease_never_ends(self):
        end = leases.Leases.end

        def end_in_hand_only(host_leases, uuid, ended, starts=None):
            return starts is None and end(host_leases, uuid, ended)

        self.plant(_LEASES + 'end', end_in_hand_only)
        self.assert_found('fail_last_check' + _NOTHING)

    def test_rollback_saves_cpus_of_destination(self):
        def rollback(*args, **kwargs):
            super(live_migration.LiveMigration,
                  args[0]).rollback_live_migration_at_destination(
                      *args[1:], **kwargs)

        self.plant('nova_prio.virt.libvirt.live_migration.LiveMigration.'
                   'rollback_live_migration_at_destination', rollback)
        # Nova saves the instance there only if the disks are not shared.
        self.plant('nova.virt.libvirt.driver.LibvirtDriver.'
                   '_check_shared_storage_test_file', lambda *args: False)
        self.assert_found('fail_job' + _NOTHING)

    def test_guest_starts_on_cpus_of_failed_resize(self):
        self.plant('nova_prio.objects.own_cpus.correct_cpus', _do_nothing)
        self.assert_found('fail_to_resize_on_host' + _NOTHING)

    def test_rebuild_applies_claim_of_failed_move(self):
        def rebuild(*args, **kwargs):
            super(driver.PriorityLibvirtDriver, args[0]).rebuild(
                *args[1:], **kwargs)

        self.plant('nova_prio.virt.libvirt.driver.PriorityLibvirtDriver.'
                   'rebuild', rebuild)
        self.assert_found('rebuild_after_failed_move' + _NOTHING)
