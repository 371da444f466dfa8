# SPDX-License-Identifier: Apache-2.0

"""The points at which an operation of Nova can be stopped."""

import functools
import pkgutil
import threading

import fixtures
from oslo_concurrency import lockutils

from nova_prio_scenario import host_options

_DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'
_TRACKER = 'nova.compute.resource_tracker.ResourceTracker.'
_REPORT = 'nova.scheduler.client.report.SchedulerReportClient.'
#: Functions that write a record, send a message, change a guest, or take the
#: lock of the tracker. An operation can be stopped before each call of them.
FUNCTIONS = (
    'nova.objects.instance.Instance.save',
    'nova.objects.instance.Instance.destroy',
    'nova.objects.migration.Migration.save',
    'nova.objects.migration.Migration.create',
    _REPORT + 'put', _REPORT + 'post', _REPORT + 'delete',
    'oslo_messaging.rpc.client._BaseCallContext.cast',
    _TRACKER + 'abort_instance_claim', _TRACKER + 'drop_move_claim',
    _TRACKER + 'drop_move_claim_at_dest',
    _TRACKER + 'drop_move_claim_at_source', _TRACKER + 'finish_evacuation',
    _TRACKER + 'instance_claim', _TRACKER + 'live_migration_claim',
    _TRACKER + 'rebuild_claim', _TRACKER + 'resize_claim',
    _TRACKER + '_update_available_resource', _TRACKER + 'update_usage',
    _DRIVER + 'cleanup', _DRIVER + 'confirm_migration', _DRIVER + 'destroy',
    _DRIVER + 'finish_migration', _DRIVER + 'finish_revert_migration',
    _DRIVER + 'live_migration', _DRIVER + 'migrate_disk_and_power_off',
    _DRIVER + 'post_live_migration_at_destination', _DRIVER + 'power_off',
    _DRIVER + 'pre_live_migration',
    _DRIVER + 'rollback_live_migration_at_destination', _DRIVER + 'spawn',
    _DRIVER + 'unrescue', _DRIVER + '_create_guest', _DRIVER + '_hard_reboot')
#: A disturbance that takes longer waits for the operation. The operation goes
#: on then.
_BLOCKED_SECONDS = 5


class Points(fixtures.Fixture):
    """Stop an operation at one of its points, and run a function there.

    A point is a name, such as "Instance.save#3" for the third call of a
    function. Each host gets a lock of its own for its tracker: in Nova's
    tests, all hosts of a process share one.
    """

    def _setUp(self):
        self.reached = []
        self.error = None
        self._lock = threading.Lock()
        self._is_counting = False
        self._stop = self._disturb = self._thread = None
        for name in FUNCTIONS:
            self.useFixture(fixtures.MonkeyPatch(name, self._stopping(name)))
        get_lock = lockutils.internal_fair_lock

        def get_lock_of_host(name):
            return get_lock('%s %d' % (name, id(host_options._OPTIONS.get())))

        self.useFixture(fixtures.MonkeyPatch(
            'oslo_concurrency.lockutils.internal_fair_lock',
            get_lock_of_host))

    def begin(self, stop=None, disturb=None):
        """Begin to count the points of an operation.

        :param stop: name of the point to stop at, or None to stop nowhere
        :param disturb: function to call there
        """
        with self._lock:
            self.reached = []
            self.error = None
            self._stop, self._disturb = stop, disturb
            self._thread = None
            self._is_counting = True

    def end(self):
        """Wait until the disturbance has ended; return whether it ran.

        :raises: the error of the disturbance
        """
        with self._lock:
            self._is_counting = False
        if self._thread is None:
            return False
        self._thread.join()
        if self.error is not None:
            raise self.error
        return True

    def _stopping(self, name):
        stock = pkgutil.resolve_name(name)
        short_name = '.'.join(name.split('.')[-2:])

        @functools.wraps(stock)
        def call(*args, **kwargs):
            self._reach(short_name)
            return stock(*args, **kwargs)

        return call

    def _reach(self, name):
        with self._lock:
            if not self._is_counting:
                return
            number = 1 + sum(
                each.partition('#')[0] == name for each in self.reached)
            point = '%s#%d' % (name, number)
            self.reached.append(point)
            if point != self._stop:
                return
            self._is_counting = False
            self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._thread.join(_BLOCKED_SECONDS)

    def _run(self):
        try:
            self._disturb()
        except Exception as error:
            self.error = error
