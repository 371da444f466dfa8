# SPDX-License-Identifier: Apache-2.0

"""The base classes of the commands that read Nova's databases."""

import functools

from cliff import columns
from cliff import lister
from osc_lib import exceptions

from nova_prio.cmd import controller

#: Exit statuses, those of ``nova-prio audit``: all is well, not all could be
#: looked at, something is to be done.
CLEAN, FAILED, FOUND = 0, 1, 3


class FromNova:
    """A command that runs where nova-manage does.

    Its ``act`` finds an administrator's RequestContext in ``context``, and
    raises what :func:`controller.one_sentence` says in one sentence.
    """

    #: Whether it is about one HOST.
    of_host = False

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--config-file', action='append', default=[], metavar='PATH',
            help='nova.conf to read (repeat the option for several; default: '
            'those that the services of Nova read)')
        if self.of_host:
            parser.add_argument('host', metavar='HOST',
                                help='name of the host')
        return parser

    def take_action(self, parsed_args):
        """Act, with Nova configured."""
        with controller.configure_nova(parsed_args) as self.context, (
                controller.report_errors()):
            return self.act(parsed_args)

    @property
    def conf(self):
        """Nova's ``oslo_config.cfg.ConfigOpts``."""
        import nova.conf
        return nova.conf.CONF

    @functools.cached_property
    def placement(self):
        """A nova.scheduler.client.report.SchedulerReportClient."""
        from nova.scheduler.client import report
        return report.SchedulerReportClient()

    def look(self, host):
        """Return what Nova and Placement say of a host.

        :returns: (``audit.views.HostView``, whether it is in an aggregate for
            priority instances, whether its nova-compute is up)
        """
        from nova import objects
        from nova import servicegroup

        from nova_prio.admin.audit import host_view
        from nova_prio.model import aggregate_metadata
        nodes = host_view.list_nodes_of_host(self.context, host)
        if len(nodes) != 1:
            raise exceptions.CommandError(
                "HOST is '%s', which has %d compute nodes; allowed are hosts "
                'with one.' % (host, len(nodes)))
        (cctxt, node), = nodes
        return (host_view.read_host(cctxt, self.placement, node),
                any(map(aggregate_metadata.is_marked,
                        objects.AggregateList.get_by_host(
                            self.context, host))),
                servicegroup.API().service_is_up(
                    objects.Service.get_by_compute_host(cctxt, host)))


class Report(FromNova, lister.Lister):
    """A list, and a last line beside it.

    ``act`` sets ``status``, the exit status, and ``said``, the last line.
    """

    status = CLEAN

    def run(self, parsed_args):
        """List what there is, say what to do next; return the status."""
        failed = super().run(parsed_args)
        if failed:
            return failed
        # After the list, beside it where that is for programs.
        self.app.stdout.flush()
        self.conclude(parsed_args)
        self.app.LOG.warning('%s', self.said)
        return self.status

    def conclude(self, parsed_args):
        """Do what is left to do once the list is shown."""


class Value(columns.FormattableColumn):
    """Numbers by name, or a text; a program gets them as they are."""

    def human_readable(self):
        """Return it as it is shown in a table."""
        if isinstance(self._value, str):
            return self._value
        from nova_prio.admin.audit import finding
        return finding.format_amounts(self._value) if self._value else 'none'
