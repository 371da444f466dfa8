# SPDX-License-Identifier: Apache-2.0

"""A stock Nova and Placement in this process, for scenarios and tests.

:class:`Cloud` is the environment of Nova's own functional tests: real API,
conductor, scheduler and computes, a real Placement, sqlite, and Nova's fake
libvirt instead of a hypervisor.
"""

import contextlib
from importlib import metadata
import os
import pathlib
import pkgutil
import sysconfig
from unittest import mock
import urllib.parse

from oslo_utils import units
from sqlalchemy import pool

from nova_prio_scenario import fake_hosts
from nova_prio_scenario import host_operations
from nova_prio_scenario import host_options
from nova_prio_scenario import result
from nova_prio_scenario import shared_sql

# The paste file of an installed wheel of Nova, or of Debian's package.
_WHEEL_PASTE = os.path.join(
    sysconfig.get_path('data'), 'etc', 'nova', 'api-paste.ini')
_PASTES = _WHEEL_PASTE, '/usr/share/nova-common/api-paste.ini'

# Nova's tests read two environment variables on import. Up to Nova 33 its
# fixtures need eventlet; from Nova 34 on they run with native threads.
try:
    for _paste in _PASTES:
        if os.path.exists(_paste):
            os.environ.setdefault('OS_WSGI__API_PASTE_CONFIG', _paste)
    os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = str(
        int(metadata.version('nova').split('.')[0]) >= 34)
    # This import decides between threads and eventlet, so no other module of
    # Nova may be imported before.
    import nova.tests.functional  # noqa: I100

    from nova.api.validation.extra_specs import validators
    import nova.conf
    from nova import context
    from nova.scheduler import request_filter
    from nova.tests.fixtures import libvirt as fakelibvirt
    from nova.tests.functional.libvirt import base

    import nova_prio.conf
    # Nova's tests unregister an object that is registered during a test.
    import nova_prio.objects.host_report  # noqa: F401
except ImportError as exc:
    raise ImportError(
        "The embedded cloud needs Nova and Placement with their test code, "
        "but the Python module %r is missing: install nova, "
        "openstack-placement and this package with its 'scenario' extra, or "
        "on Debian the packages that python3-nova-prio suggests."
        % exc.name, name=exc.name) from exc

CONF = nova.conf.CONF
PRIORITY_DRIVER = 'prio.PriorityLibvirtDriver'
STOCK_DRIVER = 'libvirt.LibvirtDriver'
# Nova's tests replace this function: see Cloud.setUp().
_TARGET_CELL = context.target_cell


class Installed:
    """A mix-in for a TestCase of Nova: this package is installed."""

    def _install(self):
        """Install and configure the package for the duration of the test."""
        self._aggregates = {}  # metadata as text to id
        nova_prio.conf.register_opts(CONF)
        self._configure()
        # The package replaces these names; after the test the fixture
        # restores them.
        self.stub_out('nova.scheduler.request_filter.ALL_REQUEST_FILTERS',
                      list(request_filter.ALL_REQUEST_FILTERS))
        for name in (
                'nova.compute.api.API',
                'nova.compute.resource_tracker.ResourceTracker',
                'nova.compute.resource_tracker.claims'):
            self.stub_out(name, pkgutil.resolve_name(name))
        # nova-api loads the validators once, after it read its configuration.
        validators.VALIDATORS.clear()
        validators.load_validators()

    def _configure(self):
        """Set the options of the guide, and lift the quotas."""
        self.flags(instances=-1, cores=-1, ram=-1, server_groups=-1,
                   server_group_members=-1, group='quota')
        self.flags(enabled=True, group='nova_prio')
        if 'disable_fallback_pcpu_query' in CONF.workarounds:
            self.flags(disable_fallback_pcpu_query=True, group='workarounds')
        enabled_filters = list(CONF.filter_scheduler.enabled_filters)
        enabled_filters.append('PriorityFilter')
        self.flags(
            available_filters=[
                'nova.scheduler.filters.all_filters',
                'nova_prio.scheduler.filters.all_filters'],
            enabled_filters=enabled_filters,
            weight_classes=[
                'nova.scheduler.weights.all_weighers',
                'nova_prio.scheduler.weights.all_weighers'],
            cpu_weight_multiplier=0.0,
            soft_affinity_weight_multiplier=0.0,
            soft_anti_affinity_weight_multiplier=0.0,
            group='filter_scheduler')

    def _clear_attrs(self):
        """Keep the attributes, because pytest reads some after the test."""

    def _join_aggregate(self, name, metadata):
        """Add a host to the aggregate with this metadata; create it once.

        :param name: name of the host
        :param metadata: dict, str to str
        """
        key = result.name_aggregate(metadata)
        if key not in self._aggregates:
            self._aggregates[key] = self._create_aggregate(key)
            self.admin_api.post_aggregate_action(
                self._aggregates[key],
                {'set_metadata': {'metadata': metadata}})
        self.admin_api.add_host_to_aggregate(self._aggregates[key], name)


class Cloud(Installed, host_operations.HostOperations, base.ServersTestBase):
    """A stock Nova and Placement that loads this package.

    ``api`` is the client of an administrator at the newest microversion,
    ``placement`` the client of Placement. ``hosts_down`` is the set of the
    names of hosts that are down. ``affinity_domains`` is the option of
    nova-scheduler.
    """

    ADMIN_API = True
    microversion = 'latest'
    affinity_domains = ('host',)

    def setUp(self):
        """Start Nova and Placement without a host."""
        self._host_options = {}  # name to options, see host_options
        self._guest_xmls = {}  # server id to domain XML
        self.hosts_down = set()
        # Nova's tests also read the directories of drop-in files, such as
        # /etc/nova/nova.conf.d, which may name the databases of a real cloud.
        self.stub_out('oslo_config.cfg.find_config_dirs',
                      lambda project=None, prog=None: [])
        self._install()
        # The kernel of this machine does not know the CPUs of the hosts.
        for name in 'ISOLATED', 'ONLINE':
            self.stub_out('nova_prio.virt.libvirt.compute_checks.' + name,
                          pathlib.Path(os.devnull))
        self.flags(affinity_domains=list(self.affinity_domains),
                   group='nova_prio')
        # Without a pool, the cloud spends a fifth of its time on opening and
        # closing the files of sqlite.
        self.stub_out('oslo_db.sqlalchemy.engines.pool.NullPool',
                      pool.QueuePool)
        self.useFixture(shared_sql.SharedSQLFixture())
        super().setUp()
        # In the replacement of Nova's tests, threads wait for each other
        # before they switch between the databases of cells, and can deadlock.
        # With one cell there is nothing to switch.
        if self.NUMBER_OF_CELLS == 1:
            self.stub_out('nova.context.target_cell', _TARGET_CELL)
        # By default a live migration waits half an hour for a host that is
        # down.
        self.flags(long_rpc_timeout=60)
        # In Nova's tests idle threads poll a hundred times a second, which
        # takes a core if several computes run.
        self.stub_out('futurist._thread.ThreadWorker.MAX_IDLE_FOR', 0.3)
        # A nova-compute that refuses to start would end its process. Here, it
        # must not end the thread of a pool that other computes use.
        run_work = pkgutil.resolve_name('futurist._utils.WorkItem.run')

        def run_and_continue(item):
            with contextlib.suppress(SystemExit):
                run_work(item)

        self.stub_out('futurist._utils.WorkItem.run', run_and_continue)
        self._options_fixture = self.useFixture(
            host_options.HostOptionsFixture())
        self.useFixture(fake_hosts.FakeHostsFixture())

    @classmethod
    @contextlib.contextmanager
    def running(cls, affinity_domains=affinity_domains):
        """Yield a running cloud, for use outside of a test.

        :param affinity_domains: tuple or list, the option of nova-scheduler
        """
        cloud = cls('_clear_attrs')
        cloud.affinity_domains = affinity_domains
        try:
            cloud.setUp()
            yield cloud
        finally:
            cloud.doCleanups()

    def _get_connection(self, *args, **kwargs):
        """Return a connection to Nova's fake libvirt."""
        # Nova refuses hosts of 16 CPUs and more because of its mock of
        # get_online_cpus, which fake_hosts has replaced. Nova's fake returns
        # the memory of a host in KiB, libvirt-python in MiB.
        with mock.patch.object(self, 'assertGreater'):
            connection = super()._get_connection(*args, **kwargs)
        info = connection.getInfo()
        info[1] //= units.Ki

        def get_info():
            return list(info)

        connection.getInfo = get_info
        return connection

    def start_compute(self, hostname='compute1', *args, **kwargs):
        """Start or restart a compute with the options of its host."""
        options = self._host_options.setdefault(
            hostname, {(None, 'host'): hostname})
        with self._options_fixture.starting(options):
            super().start_compute(hostname, *args, **kwargs)
        host_options.run_with(
            self.computes[hostname].manager, options, self._guest_xmls)
        return hostname

    def start_host(self, name, cpus=12, cells=1, threads=1, dedicated=None,
                   shared=None, ratio=None, mix=False, memory_mb=16384,
                   driver=PRIORITY_DRIVER, aggregate=None,
                   low_emulator_set=None, nova_cell=None):
        """Start a host and add it to an aggregate; return its nova-compute.

        :param cpus: a multiple of cells * threads; sibling threads have
            neighbouring numbers
        :param cells: number of NUMA cells
        :param threads: number of threads per core
        :param dedicated: str, ``cpu_dedicated_set``; shared and
            low_emulator_set likewise
        :param ratio: ``cpu_allocation_ratio``; None leaves it to Nova
        :param mix: ``cpu_priority_mix_enable``
        :param aggregate: dict, str to str: the metadata of the aggregate,
            which hosts with the same metadata share; None or {} for none
        :param nova_cell: name of Nova's cell; None for the first cell
        """
        options = {(None, 'host'): name}
        options.update(host_options.make_options(
            driver=driver, ratio=ratio, mix=mix, dedicated=dedicated,
            shared=shared, low_emulator_set=low_emulator_set))
        self._host_options[name] = options
        host_info = fakelibvirt.HostInfo(
            cpu_nodes=cells, cpu_sockets=1,
            cpu_cores=cpus // (cells * threads), cpu_threads=threads,
            kB_mem=memory_mb * units.Ki)
        self.start_compute(name, host_info, cell_name=nova_cell)
        if aggregate:
            self._join_aggregate(name, aggregate)
        # nova-scheduler knows the ratio from the second update on.
        self.update_host(name)
        return self.computes[name]

    def update_host(self, name):
        """Run the periodic resource update of one host."""
        admin = context.get_admin_context()
        cell = self.host_mappings[name].cell_mapping
        with self.host_conf(name), context.target_cell(admin, cell) as cctxt:
            self.computes[name].manager.update_available_resource(cctxt)

    def host_conf(self, name):
        """Return a context manager in which CONF has a host's options."""
        return host_options.use(self._host_options[name])

    def let_guests_migrate(self):
        """Make live migration work, which Nova's fake libvirt refuses.

        ``migrated_xml`` is the domain XML of the last live migration.
        """
        def migrate(domain, destination, params, flags):
            """Move a domain; parameters as of ``Domain.migrateToURI3``."""
            self.migrated_xml = params['destination_xml']
            host = urllib.parse.urlparse(destination).netloc
            connection = self.computes[host].driver._host.get_connection()
            connection.defineXML(self.migrated_xml).create()
            self._guest_xmls[domain.UUIDString()] = self.migrated_xml
            domain.destroy()
            domain.undefine()
            domain.complete_job()

        self.stub_out(
            'nova.tests.fixtures.libvirt.Domain.migrateToURI3', migrate)

    def guest_xml(self, server_id):
        """Return the domain XML of the last start or live migration.

        ``XMLDesc()`` of Nova's fake libvirt drops parts of the XML.
        """
        return self._guest_xmls[server_id]
