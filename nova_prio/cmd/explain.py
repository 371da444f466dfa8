# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio explain``."""

import collections

from cliff import columns
from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import report

COLUMNS = ('Host', 'Result', 'Reason', 'Rank', 'Weight')


class Explain(report.Report):
    """Explain which hosts take a new server, and why the others refuse it.

    Give an existing SERVER, for example one that got no host, or a flavor. The
    answer for SERVER is about the creation of an equal server. For each host,
    "Result" is the part of Nova that refuses the server: cell, request filter,
    Placement, PriorityFilter, or nova-compute if the request forces a host.
    For hosts that pass, the rank and the weight are those of PriorityWeighter.
    If no host passes, the last line names the host with the smallest
    shortage. This command changes nothing. It reads Nova's databases
    and Placement: run it with the nova.conf of nova-scheduler. Exit status: 0
    if a host passes, 3 if none does.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='SERVER', nargs='?',
                            help='UUID of a server')
        parser.add_argument(
            '--flavor', metavar='FLAVOR',
            help='explain for a new server of this flavor (name or ID)')
        parser.add_argument(
            '--hint', metavar='PRIORITY',
            help="scheduler hint 'priority' of the new server: high or low")
        parser.add_argument(
            '--image', metavar='IMAGE',
            help='image of the new server (ID; default: an image without '
            'properties)')
        parser.add_argument(
            '--host', action='append', metavar='HOST',
            help='list this host (repeat option to list multiple hosts)')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        _check_arguments(parsed_args)
        from nova_prio.admin.explain import answers
        from nova_prio.compat import contract
        from nova_prio.compat import hooks
        from nova_prio.scheduler import config_checks
        from nova_prio.scheduler import request_filter
        try:
            hooks.install_request_filter(request_filter.restrict_request)
        except contract.StartRefused as error:
            raise exceptions.CommandError(str(error)) from error
        for problem in config_checks.find_problems(self.conf):
            self.app.LOG.warning(
                'This nova.conf is not that of nova-scheduler, which would '
                'not start with it: %s', problem)
        spec = self._make_request(parsed_args)
        hosts, silent_cells = answers.answer(
            self.context, self.placement, spec)
        self.warn_of_silent_cells(silent_cells)
        wanted = set(parsed_args.host or ())
        unknown = wanted.difference(each.host for each in hosts)
        if unknown:
            report.refuse(
                '--host', min(unknown), 'names of compute hosts%s'
                % (' in cells that answer' if silent_cells else ''))
        hosts = [each for each in hosts if not wanted or each.host in wanted]
        self._conclude(hosts)
        return COLUMNS, [
            (each.host, each.result, each.reason,
             OptionalColumn(each.rank), OptionalColumn(each.weight))
            for each in hosts]

    def _make_request(self, parsed_args):
        """Return the nova.objects.RequestSpec of the arguments."""
        from nova_prio.admin.explain import requests
        from nova_prio.model import flavor_specs
        if parsed_args.flavor:
            image = None
            flavor = controller.find_flavor(self.context, parsed_args.flavor)
            if parsed_args.image:
                try:
                    image = requests.read_image(self.conf, parsed_args.image)
                except requests.ImageUnreadable as error:
                    raise exceptions.CommandError(
                        "--image is '%s', which cannot be read: %s. Allowed "
                        'are IDs of images that the user in [placement] of '
                        'nova.conf may read.' % (
                            parsed_args.image, error)) from error
            hints = {}
            if parsed_args.hint is not None:
                hints[flavor_specs.HINT] = parsed_args.hint
            return requests.build_request(
                self.context, self.conf, flavor, hints, image)
        try:
            server = requests.read_server(self.context, parsed_args.server)
        except requests.ServerRefused as error:
            raise exceptions.CommandError(str(error)) from error
        if server.fault:
            self.app.LOG.warning('The fault of the server: %s', server.fault)
        if server.host:
            self.app.LOG.warning(
                'The server is on %s, and its resources count as used.',
                server.host)
        return server.spec

    def _conclude(self, hosts):
        """Set the exit status and the last line.

        :param hosts: list of ``answers.Answer``
        """
        from nova_prio.admin.explain import answers
        passing = sum(each.result == answers.PASSES for each in hosts)
        if passing:
            text = '%d of %d hosts pass as of now.' % (passing, len(hosts))
        else:
            self.status = report.FOUND
            text = 'No host passes as of now. %s' % _describe_closest(hosts)
        options = self.conf.filter_scheduler
        self.last_line = (
            '%s Not evaluated: the filters %s; the weighers of %s except '
            'PriorityWeighter; networks, ports and the claim of '
            'nova-compute.' % (
                text, ', '.join(name for name in options.enabled_filters
                                if name != 'PriorityFilter') or 'none',
                ', '.join(options.weight_classes)))


class OptionalColumn(columns.FormattableColumn):
    """A number or None, which is blank in a table."""

    def human_readable(self):
        """Return the number, or an empty text."""
        return '' if self._value is None else self._value


def _check_arguments(parsed_args):
    """Raise CommandError unless a server or a flavor is given."""
    if bool(parsed_args.server) == bool(parsed_args.flavor):
        raise exceptions.CommandError(
            'Both SERVER and --flavor are given; give only one of them.'
            if parsed_args.server else
            'Neither SERVER nor --flavor is given; give one of them.')
    for name in ('hint', 'image'):
        value = getattr(parsed_args, name)
        if parsed_args.server and value is not None:
            raise exceptions.CommandError(
                "--%s is '%s', which is allowed only with --flavor."
                % (name, value))


def _describe_closest(hosts):
    """Return which host is closest to a fit, or the most frequent reason."""
    from nova_prio.admin.explain import answers
    closest = answers.find_closest(hosts)
    if closest:
        return 'Closest is %s, which lacks %s (%s).' % (
            closest.host, ' and '.join(
                _describe_missing(*item) for item in closest.missing.items()),
            closest.result)
    if not hosts:
        return 'There are no hosts.'
    (result, reason), number = collections.Counter(
        (each.result, each.reason) for each in hosts).most_common(1)[0]
    return ('No host is only short of resources. Most frequent, on %d of %d '
            'hosts: %s (%s).' % (number, len(hosts), reason, result))


def _describe_missing(name, amount):
    """Return a missing amount as text.

    :param name: name of a row, or resource class
    """
    if name.endswith(' row'):
        return '%d %s in the %s' % (
            amount, 'vCPU' if amount == 1 else 'vCPUs', name)
    return '%d %s' % (amount, name)
