# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio flavor compile``."""

import warnings

from cliff import show
from osc_lib.cli import format_columns
from osc_lib.cli import parseractions

from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio.model import maturity


class CompileFlavor(show.ShowOne):
    """Show the CPUs that a flavor gives, before it is created.

    Show the flavor that nova-api would embed in an instance, the vCPUs and
    memory of each NUMA node of the guest, and the resources that Placement
    would be asked for. This command reads only its arguments, and does not
    check the policy rules of hints. Exit status: 1 if nova-api would refuse
    such a flavor or request.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        # The help ends with a line about how stable the command is.
        parser = maturity.mark(super().get_parser(prog_name))
        for name, default, unit, text in (
                ('--vcpus', 1, 'VCPUS', 'number of vCPUs'),
                ('--ram', 256, 'SIZE_MB', 'memory size in MB'),
                ('--disk', 0, 'SIZE_GB', 'disk size in GB')):
            parser.add_argument(
                name, type=int, default=default, metavar=unit,
                help=text + ' (default: %(default)s)')
        for name, text, plural in (
                ('--property', 'extra spec of the flavor', 'properties'),
                ('--image-property', 'property of the image', 'properties'),
                ('--hint', 'scheduler hint of the request', 'hints')):
            parser.add_argument(
                name, action=parseractions.KeyValueAction, default={},
                metavar='KEY=VALUE',
                help='%s (repeat option to set multiple %s)' % (text, plural))
        return parser

    def take_action(self, parsed_args):
        """Return the names and the values to show."""
        # These calls raise CommandError if a number is too small.
        report.get_number(parsed_args, 'vcpus', least=1)
        report.get_number(parsed_args, 'ram', least=1)
        report.get_number(parsed_args, 'disk', least=0)
        # Import Nova late, so that the help is fast. Operators cannot act on
        # the warnings of Nova's libraries.
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            from nova_prio.api import flavor_preview
        with controller.report_errors():
            preview = flavor_preview.preview(
                parsed_args.vcpus, parsed_args.ram, parsed_args.disk,
                parsed_args.property, parsed_args.image_property,
                parsed_args.hint)
        preview['numa_nodes'] = format_columns.ListDictColumn(
            preview['numa_nodes'])
        for name in ('placement_request', 'extra_specs'):
            preview[name] = format_columns.DictColumn(preview[name])
        return tuple(preview), tuple(preview.values())
