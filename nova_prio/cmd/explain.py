# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio explain``."""

import collections

from cliff import columns
from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import report

COLUMNS = ('Host', 'Result', 'Reason', 'Rank', 'Weight')


class Explain(report.Report):
    """Explain which hosts take a server, and why the others refuse it.

    Give an existing SERVER or a flavor. If SERVER is on a host, the answer is
    about its move to another host, otherwise about the creation of an equal
    server. Nova's own code decides, with all filters that nova.conf enables.
    For each host, "Result" is the part of Nova that refuses the server: cell,
    request filter, Placement, nova-scheduler, the name of a filter, or
    nova-compute if the request forces a host. For hosts that pass, the rank
    and the weight are those of PriorityWeighter. If no host passes, the last
    line names the host with the smallest shortage. If a host has several
    compute nodes, "Host" is the name of the host, a colon, and the name of the
    node. This command changes nothing. It reads Nova's databases and
    Placement: run it with the nova.conf of nova-scheduler. Exit status: 0 if a
    host passes, 3 if none does.
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
        from nova_prio.admin.explain import judge
        spec = self._make_request(parsed_args)
        of_cloud = judge.Judge(self.context, self.placement)
        hosts = of_cloud.answer(spec)
        self.warn_of_silent_cells(of_cloud.silent_cells)
        wanted = set(parsed_args.host or ())
        # The name of a host stands for all its nodes.
        names = {each: {each.host, each.host.partition(':')[0]}
                 for each in hosts}
        unknown = wanted.difference(*names.values())
        if unknown:
            report.refuse(
                '--host', min(unknown), 'names of compute hosts%s'
                % (' in cells that answer' if of_cloud.silent_cells else ''))
        hosts = [each for each in hosts
                 if not wanted or wanted & names[each]]
        self._conclude(hosts, of_cloud.list_doubts())
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
                'The server is on %s: the answer is about a move to another '
                'host.', server.host)
        return server.spec

    def _conclude(self, hosts, doubts):
        """Set the exit status and the last line.

        :param hosts: list of ``answers.Answer``
        :param doubts: list of clauses, why a host that passes may not fit
        """
        from nova_prio.admin.explain import answers
        passing = sum(each.result == answers.PASSES for each in hosts)
        if not passing:
            self.status = report.FOUND
            text = 'No host passes as of now. %s' % _describe_closest(hosts)
        elif doubts:
            text = '%d of %d hosts may pass as of now: %s.' % (
                passing, len(hosts), '; '.join(doubts))
        else:
            text = '%d of %d hosts pass as of now.' % (passing, len(hosts))
        self.last_line = (
            '%s Not evaluated: the weighers of %s except PriorityWeighter; '
            'CPU model, storage, networks and ports.' % (
                text, ', '.join(self.conf.filter_scheduler.weight_classes)))


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
