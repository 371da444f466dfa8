# SPDX-License-Identifier: Apache-2.0

"""The points at which an operation of Nova can be stopped."""

import collections
import contextlib
import contextvars
import functools
import pkgutil
import threading
import time

import fixtures
from nova.compute import manager as compute_manager
from oslo_concurrency import lockutils

from nova_prio_scenario import host_options

_DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'
# Each driver that starts makes a subclass of this tracker.
_TRACKER = 'nova_prio.compute.resource_tracker.PriorityResourceTracker.'
_REPORT = 'nova.scheduler.client.report.SchedulerReportClient.'
#: Functions that write a record, send a message, change a guest, or take the
#: lock of the tracker. An operation can be stopped before each call of them.
FUNCTIONS = (
    'nova.objects.instance.Instance.save',
    'nova.objects.instance.Instance.destroy',
    'nova.objects.instance.Instance.drop_migration_context',
    'nova.objects.migration.Migration.save',
    'nova.objects.migration.Migration.create',
    'nova.objects.build_request.BuildRequest.destroy',
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
    _DRIVER + 'pre_live_migration', _DRIVER + 'resume',
    _DRIVER + 'rollback_live_migration_at_destination', _DRIVER + 'spawn',
    _DRIVER + 'suspend', _DRIVER + 'unrescue', _DRIVER + '_create_guest',
    _DRIVER + '_hard_reboot')
#: Reads of a recount, in their order. A recount can be stopped before each.
READS = (
    'nova.objects.instance.InstanceList.get_by_host_and_node',
    'nova.objects.migration.MigrationList.get_in_progress_and_error',
    _TRACKER + '_update_usage_from_migrations',
    'nova_prio.objects.lease_end.read_need')
#: If a disturbance takes longer, it waits for the operation: let the operation
#: go on. If it waits for a lock of the operation, do so at once.
_BLOCKED_SECONDS = 30
#: A split recount waits this long for the next points of the operation.
_GO_ON_SECONDS = 2
#: The nova.compute.manager.ComputeManager whose call this thread runs, or
#: None.
_MANAGER = contextvars.ContextVar('manager', default=None)


class Killed(BaseException):
    """The nova-compute that this thread belongs to was killed."""


class _WatchedLock:
    """A lock of oslo.concurrency, a fair one or a semaphore.

    :param take: function without parameters that returns a context in which
        the present thread has the lock
    """

    def __init__(self, take):
        self.write_lock = take

    def __enter__(self):
        context = self.write_lock()
        taken = context.__enter__()
        # No other thread is here now.
        self._context = context
        return taken

    def __exit__(self, *error):
        return self._context.__exit__(*error)


class Points(fixtures.Fixture):
    """Stop an operation at some of its points, and run a function there.

    A point is a name, such as "Instance.save#3" for the third call of a
    function. Each host gets locks of its own: in Nova's tests, all hosts of a
    process share them. A nova-compute can be killed: its threads do nothing
    more than to end.

    ``reached`` is the list of the points so far, without those of a
    disturbance while the operation waits for it. ``running`` is the number of
    works that threads of Nova are doing.
    """

    def _setUp(self):
        self.reached = []
        self.error = None
        self.running = 0
        self._lock = threading.Lock()
        self._is_counting = False
        self._is_waiting = False  # whether the operation waits at a point
        self._choose = self._thread = self._victim = None
        self._go_on_until = 0  # number of points before the operation waits
        self._deadline = 0  # time when it waits no longer for a disturbance
        self._killed = set()
        self._followed = set()  # each nova-compute that had a call
        self._restarts = collections.Counter()  # by id of the owner of locks
        self._stopped = set()  # threads that wait for a disturbance
        self._owners = {}  # name of a lock -> the thread that has it
        self._waiting = {}  # thread -> name of the lock that it waits for
        self._splits = {}  # thread -> (name of a read, points to go on)
        for name in FUNCTIONS:
            self._wrap(name, self._reach)
        for name in READS:
            self._wrap(name, self._read)
        self._separate_locks()
        self._follow_threads()

    def _wrap(self, name, before):
        """Let a function call another one with its short name first."""
        owner, _, attribute = name.rpartition('.')
        owner = pkgutil.resolve_name(owner)
        stock = getattr(owner, attribute)
        short_name = '.'.join(name.split('.')[-2:])

        @functools.wraps(stock)
        def call(*args, **kwargs):
            before(short_name)
            return stock(*args, **kwargs)

        # A class method is bound already.
        is_bound = getattr(stock, '__self__', None) is owner
        self.useFixture(fixtures.MonkeyPatch(
            name, staticmethod(call) if is_bound else call))

    def _separate_locks(self):
        """Give each nova-compute locks of its own."""
        get_lock = lockutils.internal_lock
        get_fair_lock = lockutils.internal_fair_lock

        def get_own_lock(name, *args, **kwargs):
            name = self._name_lock(name)
            lock = get_lock(name, *args, **kwargs)
            return _WatchedLock(lambda: self._taking(name, lock))

        def get_own_fair_lock(name):
            name = self._name_lock(name)
            return _WatchedLock(lambda: self._taking(
                name, get_fair_lock(name).write_lock()))

        self.useFixture(fixtures.MonkeyPatch(
            'oslo_concurrency.lockutils.internal_lock', get_own_lock))
        self.useFixture(fixtures.MonkeyPatch(
            'oslo_concurrency.lockutils.internal_fair_lock',
            get_own_fair_lock))

    @contextlib.contextmanager
    def _taking(self, name, lock):
        """Return a context in which this thread has a lock.

        :param lock: context that takes the lock
        """
        thread = threading.current_thread()
        self._waiting[thread] = name
        try:
            with lock as taken:
                del self._waiting[thread]
                self._owners[name] = thread
                try:
                    yield taken
                finally:
                    self._owners.pop(name, None)
        finally:
            self._waiting.pop(thread, None)

    def _block_others(self, threads):
        """Return whether another thread waits for a lock of some threads."""
        return any(self._owners.get(name) in threads
                   for name in list(self._waiting.values()))

    def _name_lock(self, name):
        """Return the name of a lock of this nova-compute."""
        options = host_options.get_current()
        owner = id(_MANAGER.get() if options is None else options)
        # A nova-compute that was killed may keep its locks.
        return '%s %d %d' % (name, owner, self._restarts[owner])

    def _follow_threads(self):
        """Find out for each thread of Nova which nova-compute it runs.

        Threads of a pool get the variables of the thread that has made their
        work.
        """
        dispatch = pkgutil.resolve_name(
            'oslo_messaging.rpc.dispatcher.RPCDispatcher._do_dispatch')

        def dispatch_to(dispatcher, endpoint, *args, **kwargs):
            # Nova 34 wraps its endpoints.
            owner = getattr(endpoint, '_tracker', endpoint)
            manager = getattr(owner, 'manager', owner)
            is_compute = isinstance(manager, compute_manager.ComputeManager)
            token = _MANAGER.set(manager if is_compute else None)
            if is_compute:
                self._followed.add(manager)
            try:
                return dispatch(dispatcher, endpoint, *args, **kwargs)
            finally:
                _MANAGER.reset(token)

        self.useFixture(fixtures.MonkeyPatch(
            'oslo_messaging.rpc.dispatcher.RPCDispatcher._do_dispatch',
            dispatch_to))
        init = pkgutil.resolve_name('futurist._utils.WorkItem.__init__')

        def init_with_context(item, future, function, *args, **kwargs):
            run = contextvars.copy_context().run
            init(item, future, run, function, *args, **kwargs)
            # The loops of a service do not end.
            module = getattr(function, '__module__', None) or ''
            item.has_end = not module.startswith('oslo_service')

        self.useFixture(fixtures.MonkeyPatch(
            'futurist._utils.WorkItem.__init__', init_with_context))
        run = pkgutil.resolve_name('futurist._utils.WorkItem.run')

        def run_counted(item):
            if getattr(item, 'has_end', False):
                with self._working():
                    run(item)
            else:
                run(item)

        self.useFixture(fixtures.MonkeyPatch(
            'futurist._utils.WorkItem.run', run_counted))

    @contextlib.contextmanager
    def _working(self):
        with self._lock:
            self.running += 1
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1

    def wait_until_still(self, seconds, patience_seconds):
        """Wait until the threads of Nova have done nothing for a while.

        :param patience_seconds: the longest time to wait
        """
        deadline = time.monotonic() + patience_seconds
        since = time.monotonic()
        while time.monotonic() < min(since + seconds, deadline):
            if self.running:
                since = time.monotonic()
            time.sleep(0.02)

    # An operation

    def begin(self, choose, victim=None):
        """Begin to count the points of an operation.

        :param choose: function that takes the name of a point, and returns the
            function to call there, a disturbance, or None to go on. It is not
            asked while a disturbance goes on
        :param victim: function that kills the nova-compute to be killed at the
            point, or None
        """
        with self._lock:
            self.reached = []
            self.error = None
            self._choose, self._victim = choose, victim
            self._thread = None
            self._is_waiting = False
            self._is_counting = True

    def end(self):
        """Wait until the disturbances have ended; return whether one ran.

        :raises: the first error of a disturbance
        """
        with self._lock:
            self._is_counting = False
        if self._thread is None:
            return False
        self._thread.join()
        if self.error is not None:
            raise self.error
        return True

    def kill(self, manager):
        """Kill a nova-compute: its threads end at their next point."""
        # Each host has a neighbour: its nova-compute had a call.
        assert self._followed, 'The calls to nova-compute are not followed.'
        self._killed.add(manager)

    def forget_locks(self, options):
        """Give a host new locks when its nova-compute starts again."""
        self._restarts[id(options)] += 1

    @contextlib.contextmanager
    def splitting(self, read, number):
        """Return a context in which this thread stops before a read.

        :param read: short name of one of READS
        :param number: how many points the operation may go on then
        """
        thread = threading.current_thread()
        self._splits[thread] = read, number
        try:
            yield
        finally:
            self._splits.pop(thread, None)

    def _reach(self, name):
        """Count a point, and run what is chosen for it.

        The operation waits there for an earlier disturbance to which it has
        given way. So it goes on for as few points as possible.
        """
        with self._lock:
            point = self._count(name)
        if _MANAGER.get() in self._killed:
            raise Killed()
        if point is None:
            return
        self._wait_for_disturbance()
        with self._lock:
            disturb = self._choose_for(point)
        if disturb is None:
            return
        if self._victim is not None:
            self._victim()
        self._go_on_until = 0
        self._deadline = time.monotonic() + _BLOCKED_SECONDS
        self._thread = threading.Thread(
            target=self._run, args=(disturb,), daemon=True)
        self._thread.start()
        self._wait_for_disturbance()
        if _MANAGER.get() in self._killed:
            raise Killed()

    def _wait_for_disturbance(self):
        """Wait until it ends, is blocked, or lets the operation go on."""
        thread = threading.current_thread()
        while (self._thread is not None and self._thread.is_alive() and
               len(self.reached) >= self._go_on_until and
               not self._block_others(self._stopped) and
               time.monotonic() < self._deadline):
            self._is_waiting = True
            self._stopped.add(thread)
            self._thread.join(0.02)
        self._stopped.discard(thread)
        self._is_waiting = False

    def _count(self, name):
        """Count a point; return its name, or None if it is of another work."""
        is_of_disturbance = (self._is_waiting or
                             threading.current_thread() is self._thread)
        if not self._is_counting or is_of_disturbance:
            return None
        number = 1 + sum(
            each.partition('#')[0] == name for each in self.reached)
        point = '%s#%d' % (name, number)
        self.reached.append(point)
        return point

    def _choose_for(self, point):
        """Return the function to call at a point, or None."""
        if self.error or (self._thread and self._thread.is_alive()):
            return None
        disturb = self._choose(point)
        self._is_waiting = disturb is not None
        return disturb

    def _read(self, name):
        """Stop a split recount, and let the operation go on meanwhile."""
        thread = threading.current_thread()
        read, number = self._splits.get(thread, (None, None))
        if name != read:
            return
        del self._splits[thread]
        self._go_on_until = len(self.reached) + number
        deadline = time.monotonic() + _GO_ON_SECONDS
        while (len(self.reached) < self._go_on_until and
               not self._block_others([thread]) and
               time.monotonic() < deadline):
            time.sleep(0.01)

    def _run(self, disturb):
        try:
            disturb()
        except BaseException as error:
            self.error = error
