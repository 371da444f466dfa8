# SPDX-License-Identifier: Apache-2.0

"""A plug-in of sos: the state of nova_prio on a host.

Copy this file into the directory ``sos/report/plugins`` of the installed sos.
The archive has no nova.conf, and the plug-in masks what an error quotes of it.
"""

from sos.report.plugins import DebianPlugin
from sos.report.plugins import Plugin
from sos.report.plugins import RedHatPlugin
from sos.report.plugins import UbuntuPlugin
from sos.utilities import is_executable

COMMANDS = (
    'nova-prio --version',
    'nova-prio capacity show -f json',
    'nova-prio audit -f json',
    'nova-prio-status upgrade check --json',
    'nova-prio-host check',
    'nova-prio-host metrics',
)
#: A regular expression of the names of containers that have the commands.
CONTAINERS = r'nova_(api|compute|scheduler)$'
FILES = (
    '/etc/nova-prio-host.conf',
    '/etc/systemd/system/nova-prio-*',
    '/usr/lib/systemd/system/nova-prio-*',
)
UNITS = ('nova-prio-host', 'nova-prio-host-metrics', 'nova-prio-metrics')
#: Seconds; an audit of a large cloud takes minutes.
TIMEOUT = 1200


# sos 4.0 of Debian 12 ignores an IndependentPlugin.
class NovaPrio(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin):

    short_desc = 'High and low CPU priority of Nova instances'
    plugin_name = 'nova_prio'
    profiles = ('openstack', 'openstack_controller', 'openstack_compute')
    plugin_timeout = len(COMMANDS) * TIMEOUT
    commands = ('nova-prio', 'nova-prio-host')
    containers = (CONTAINERS,)

    def setup(self):
        for command in COMMANDS:
            self.add_cmd_output(
                self.find_command(command), timeout=TIMEOUT,
                suggest_filename=command.replace(' ', '_'))
        self.add_copy_spec(list(FILES))
        self.add_journal(units=list(UNITS))

    def find_command(self, command):
        """Return the command line for this host, or for a container."""
        if not is_executable(command.split()[0]):
            for runtime in self.policy.runtimes.values():
                container = runtime.get_container_by_name(CONTAINERS)
                if container:
                    return '%s exec %s %s' % (
                        runtime.binary, container, command)
        return command

    def postproc(self):
        # The error of a parser quotes the line of nova.conf.
        self.do_cmd_output_sub(
            'nova-prio', r"""(at \S+:\d+, .*?: )['"].*""", r'\1***')
        # The user and password of a URL.
        self.do_cmd_output_sub('nova-prio', r'://\S*@', '://***@')
