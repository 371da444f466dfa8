# SPDX-License-Identifier: Apache-2.0

"""The audit of many hosts over HTTP: ``python -m benchmarks.live_audit DIR``.

DIR is the directory of a new live cloud, as ``python -m tests.live up`` starts
it. The benchmark creates servers on one of its hosts, and copies the records
of this host in the databases. Then ``nova-manage placement audit`` and
``nova-prio audit`` run in turn. Afterwards, the cloud is of no more use.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from nova import context
from nova import objects
from oslo_config import cfg
from placement import conf as placement_conf
from placement import db_api as placement

from benchmarks import clock
from benchmarks import copies
from benchmarks import live_cloud
from benchmarks import live_scheduler
from benchmarks import tables
from tests.libvirt import boot_sector
from tests.live import catalog
from tests.live import client
from tests.live import cloud
from tests.live import layout as layouts
from tests.live import waiting

NAME = 'audit'
#: Extra specs of the servers of each host.
SERVERS = ({'hw:cpu_priority': 'high'}, {'hw:cpu_priority': 'low'},
           {'hw:cpu_priority': 'low'}, {})
COMMANDS = {'stock': ('nova-manage', 'placement', 'audit'),
            'ours': ('nova-prio', 'audit')}
#: Figure -> its words in the table.
FIGURES = {'wall': 'elapsed time', 'client': 'processor time of the command',
           'placement': 'processor time of Placement'}


class Audits:
    """The two audits of a live cloud.

    :param layout: :class:`tests.live.layout.Layout` of a running cloud
    """

    def __init__(self, layout):
        self._layout = layout
        self._cloud = cloud.Cloud(layout)

    def fill(self, hosts):
        """Let the cloud have so many hosts with servers."""
        self._cloud.configure(is_plain=False)
        host, *_ = self._layout.hosts
        servers = self._create_servers(host)
        # nova-compute writes its new resources once a minute.
        waiting.soon(lambda: not self._run('ours').returncode, every=5,
                     within=live_cloud.SECONDS)
        live_scheduler.configure(self._layout)
        options = cfg.ConfigOpts()
        placement_conf.register_opts(options)
        options(['--config-file=%s' % (
            self._layout.etc / 'placement' / 'placement.conf')])
        placement.configure(options)
        copies.copy_host(objects.HostMapping.get_by_host(
            context.get_admin_context(), host), servers, hosts)

    def _create_servers(self, host):
        """Create the servers of a host; return their UUIDs."""
        with tempfile.TemporaryDirectory() as directory:
            client.Client(self._layout).run(
                'image', 'create', '--file',
                boot_sector.build(boot_sector.IDLE, directory),
                '--disk-format', 'raw', '--container-format', 'bare', NAME)
        connection = catalog.connect(self._layout)
        compute = connection.compute
        aggregate = compute.create_aggregate(name=NAME)
        compute.set_aggregate_metadata(aggregate, {'priority_mix': 'true'})
        compute.add_host_to_aggregate(aggregate, host)
        servers = []
        for number, extra_specs in enumerate(SERVERS):
            flavor = compute.create_flavor(
                name='%s-%d' % (NAME, number), vcpus=1, ram=64, disk=1)
            compute.create_flavor_extra_specs(flavor, extra_specs)
            server = compute.create_server(
                name=flavor.name, flavor_id=flavor.id,
                image_id=connection.image.find_image(NAME).id,
                networks='none', availability_zone='nova:' + host)
            servers.append(compute.wait_for_server(
                server, wait=live_cloud.SECONDS).id)
        return servers

    def _run(self, side):
        """Run an audit; return its subprocess.CompletedProcess."""
        program, *words = COMMANDS[side]
        options = self._layout.nova_options
        # Nova's command takes its options first, ours last.
        return subprocess.run(
            [layouts.PROGRAMS / program,
             *([*options, *words] if side == 'stock' else [*words, *options])],
            capture_output=True, text=True)

    def measure(self, side):
        """Run an audit; return dict, figure -> seconds.

        :param side: a key of COMMANDS
        :raises SystemExit: if the audit fails or finds something
        """
        pid = self._cloud.status()['placement']
        before = live_cloud.cpu_seconds(pid)
        started, client_before = time.monotonic(), _read_child_seconds()
        done = self._run(side)
        found = {'wall': time.monotonic() - started,
                 'client': _read_child_seconds() - client_before,
                 'placement': live_cloud.cpu_seconds(pid) - before}
        if done.returncode:
            raise SystemExit('%s ends with status %d. %s%s' % (
                ' '.join(COMMANDS[side]), done.returncode, done.stdout,
                done.stderr))
        return found


def _read_child_seconds():
    """Return the processor time of all ended commands."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make_table(hosts, stock, ours):
    """Return the Table of both audits.

    :param stock: list of results of ``Audits.measure``; ours likewise
    """
    rows = []
    for figure, words in FIGURES.items():
        of_stock, of_ours = (
            statistics.median(each[figure] for each in side)
            for side in (stock, ours))
        rows.append((words, '%.3g s' % of_stock, '%.3g s' % of_ours,
                     '%.2f' % (of_ours / of_stock)))
    return tables.Table(('audit of {:,d} hosts'.format(hosts), 'Nova', 'ours',
                         'ours to Nova'), rows)


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.live_audit', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cloud', type=pathlib.Path, metavar='DIR')
    parser.add_argument('--hosts', type=int, default=1000)
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument('--tables', type=pathlib.Path, metavar='DIRECTORY',
                        help='also write the table of the guide there')
    arguments = parser.parse_args()
    try:
        layout = layouts.Layout.load(arguments.cloud.absolute())
    except (OSError, ValueError) as error:
        parser.error(str(error))
    audits = Audits(layout)
    audits.fill(arguments.hosts)
    table = make_table(arguments.hosts, *clock.alternate(
        lambda: audits.measure('stock'), lambda: audits.measure('ours'),
        arguments.repeats))
    print(tables.as_text(table))
    if arguments.tables:
        tables.write(table, arguments.tables / 'audit.csv')


if __name__ == '__main__':
    sys.exit(main())
