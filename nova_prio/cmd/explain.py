# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio explain``."""

import collections

from cliff import columns
from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import report

COLUMNS = ('Host', 'Result', 'Reason', 'Rank', 'Weight', 'Low Supply')


class Explain(report.Report):
    """Explain which hosts take a server, and why the others refuse it.

    Give an existing SERVER or a flavor. If SERVER is on a host, the answer is
    about its move to another host, otherwise about the creation of an equal
    server. Nova's own code decides, with all filters that nova.conf enables.
    For each host, "Result" is the part of Nova that refuses the server: cell,
    request filter, Placement, nova-scheduler, the name of a filter, or
    nova-compute if the request forces a host. For hosts that pass, the weight
    is that of PriorityWeighter, and "Low Supply" is the number of CPUs for
    each low-priority vCPU, this server included, if it has low priority. The
    rank is that of PriorityWeighter, and of LowSupplyWeigher if nova.conf
    enables it. If no host passes, the last line names the host with the
    smallest shortage. If a host has several
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

    def act(self, context, parsed_args):
        """List the answers of the hosts; return the exit status."""
        _check_arguments(parsed_args)
        from nova_prio.admin.explain import judge
        if parsed_args.flavor:
            spec = _make_request(context, parsed_args)
        else:
            spec = self._read_request(context, parsed_args.server)
        # This asks Placement, and runs Nova's filters on all hosts.
        scheduler = judge.Judge(context, controller.make_placement_client())
        answers = scheduler.answer(spec)
        silent_cells = scheduler.hosts.silent_cells
        report.warn_of_silent_cells(self.app, silent_cells)
        wanted = set(parsed_args.host or ())
        shown, unknown = [], set(wanted)
        for each in answers:
            # If a host has several nodes, ``each.host`` is "host:node". --host
            # may name the node so, or the host, which stands for all nodes.
            host_name = each.host.partition(':')[0]
            names = {each.host, host_name}
            unknown -= names
            if not wanted or wanted & names:
                shown.append(each)
        if unknown:
            allowed = 'names of compute hosts'
            if silent_cells:
                allowed += ' in cells that answer'
            # This raises CommandError.
            report.refuse('--host', min(unknown), allowed)
        # ``low_supply`` is the CPU time for each low-priority vCPU as a number
        # of CPUs, or None.
        self.show(parsed_args, COLUMNS, [
            (each.host, each.result, each.reason,
             OptionalColumn(each.rank), OptionalColumn(each.weight),
             OptionalColumn(_round(each.low_supply)))
            for each in shown])
        # A doubt is why nova-scheduler may refuse a host that passes here: for
        # example, a filter cannot run here. It changes only the text.
        status, text = _conclude(shown, scheduler.list_doubts())
        weighers = controller.get_conf().filter_scheduler.weight_classes
        return self.end(status, (
            '%s Not evaluated: the weighers of %s except PriorityWeighter '
            'and LowSupplyWeigher; CPU model, storage, networks and ports.'
            % (text, ', '.join(weighers))))

    def _read_request(self, context, uuid):
        """Return the nova.objects.RequestSpec of a server.

        Log the fault of the server, and that it is on a host.
        """
        from nova_prio.admin.explain import requests
        server = requests.read_server(context, uuid)
        if server.fault:
            self.app.LOG.warning('The fault of the server: %s', server.fault)
        if server.host:
            self.app.LOG.warning(
                'The server is on %s: the answer is about a move to another '
                'host.', server.host)
        return server.spec


def _round(supply):
    """Return a number of CPUs with two digits, or None."""
    return None if supply is None else round(supply, 2)


def _make_request(context, parsed_args):
    """Return the nova.objects.RequestSpec of a new server of --flavor."""
    from nova_prio.admin.explain import requests
    from nova_prio.model import flavor_specs
    flavor = controller.find_flavor(context, parsed_args.flavor)
    conf = controller.get_conf()
    image = None
    if parsed_args.image:
        try:
            image = requests.read_image(conf, parsed_args.image)
        except requests.ImageUnreadable as error:
            raise exceptions.CommandError(
                "--image is '%s', which cannot be read: %s. Allowed are IDs "
                'of images that the user in [placement] of nova.conf may '
                'read.' % (parsed_args.image, error)) from error
    hints = {}
    if parsed_args.hint is not None:
        hints[flavor_specs.HINT] = parsed_args.hint
    return requests.build_request(context, conf, flavor, hints, image)


def _conclude(answers, doubts):
    """Return the exit status, and how many hosts pass.

    :param answers: list of ``answers.Answer``, one for each host
    :param doubts: list of clauses, why a host that passes may not fit
    :returns: (exit status, sentences)
    """
    from nova_prio.admin.explain import answers as explain_answers
    passing = sum(
        each.result == explain_answers.PASSES for each in answers)
    if not passing:
        # This exit status tells the operator to act.
        return report.FOUND, 'No host passes as of now. %s' % (
            _describe_closest(answers))
    text = '%d of %d hosts ' % (passing, len(answers))
    if doubts:
        text += 'may pass as of now: %s.' % '; '.join(doubts)
    else:
        text += 'pass as of now.'
    return report.CLEAN, text


class OptionalColumn(columns.FormattableColumn):
    """A number or None, which is blank in a table."""

    def human_readable(self):
        """Return the number, or an empty text."""
        return '' if self._value is None else self._value


def _check_arguments(parsed_args):
    """Raise CommandError unless a server or a flavor is given."""
    server, flavor = parsed_args.server, parsed_args.flavor
    if server and flavor:
        raise exceptions.CommandError(
            'Both SERVER and --flavor are given; give only one of them.')
    if not server and not flavor:
        raise exceptions.CommandError(
            'Neither SERVER nor --flavor is given; give one of them.')
    for name in ('hint', 'image'):
        value = getattr(parsed_args, name)
        if server and value is not None:
            raise exceptions.CommandError(
                "--%s is '%s', which is allowed only with --flavor."
                % (name, value))


def _describe_closest(answers):
    """Return which host is closest to a fit, or the most frequent reason.

    The closest host lacks the smallest amounts, and has no other problem.

    :param answers: list of ``answers.Answer``, one for each host, which
        refuses the server
    :returns: a sentence
    """
    # This imports Nova, so it is late: the help must be fast.
    from nova_prio.admin.explain import answers as explain_answers
    closest = explain_answers.find_closest(answers)
    if closest:
        texts = []
        # Name of what is missing -> amount.
        for name, amount in closest.missing.items():
            text = '%d %s' % (amount, name)
            # A row is a number of vCPUs that a host may sell, such as the
            # "high row" of pinned vCPUs. The other names are those of
            # resources, such as DISK_GB.
            if name.endswith(' row'):
                text = '%s in the %s' % (
                    report.format_count(amount, 'vCPU'), name)
            texts.append(text)
        return 'Closest is %s, which lacks %s (%s).' % (
            closest.host, ' and '.join(texts), closest.result)
    if not answers:
        return 'There are no hosts.'
    # The result is the part of Nova that refuses, such as the name of a
    # filter, and the reason is a clause.
    counts = collections.Counter(
        (each.result, each.reason) for each in answers)
    (result, reason), number = counts.most_common(1)[0]
    return ('No host is only short of resources. Most frequent, on %d of %d '
            'hosts: %s (%s).' % (number, len(answers), reason, result))
