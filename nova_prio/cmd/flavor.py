# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio flavor compile``."""

import warnings

from cliff import show
from osc_lib.cli import format_columns
from osc_lib.cli import parseractions
from osc_lib import exceptions

from nova_prio.cmd import controller


class Compile(show.ShowOne):
    """Show what the CPUs of a flavor become, before it is created.

    It shows what nova-api writes into the flavor of an instance, how the
    vCPUs and the memory spread over the NUMA nodes of the guest, and the
    amounts that Placement is asked for. Nothing but its arguments is read, and
    who may use a hint is not asked. The exit status is 1 where a flavor with
    these properties, or such a request, would be answered with an error.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--vcpus', type=int, default=1, metavar='VCPUS',
            help='number of vCPUs (default: 1)')
        parser.add_argument(
            '--ram', type=int, default=256, metavar='SIZE_MB',
            help='memory size in MB (default: 256)')
        parser.add_argument(
            '--disk', type=int, default=0, metavar='SIZE_GB',
            help='disk size in GB (default: 0)')
        for name, what in (
                ('--property', 'extra spec of the flavor'),
                ('--image-property', 'property of the image'),
                ('--hint', 'scheduler hint of the request')):
            parser.add_argument(
                name, action=parseractions.KeyValueAction, default={},
                metavar='KEY=VALUE', help='%s (repeat the option for several)'
                % what)
        return parser

    def take_action(self, parsed_args):
        """Return the names and the values to show, in their order."""
        for name, least in ('vcpus', 1), ('ram', 1), ('disk', 0):
            value = getattr(parsed_args, name)
            if value < least:
                raise exceptions.CommandError(
                    '--%s is %d; allowed is a whole number from %d on.'
                    % (name, value, least))
        # Nova takes a second to import, which the help need not wait for, and
        # its libraries warn of what is not the user's to change.
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            from nova_prio.api import flavor_preview
        with controller.report_errors():
            found = flavor_preview.preview(
                parsed_args.vcpus, parsed_args.ram, parsed_args.disk,
                parsed_args.property, parsed_args.image_property,
                parsed_args.hint)
        return zip(*(
            ('priority', found.priority),
            ('cpu_policy', found.cpu_policy),
            ('dedicated_cpus', found.dedicated_cpus),
            ('shared_cpus', found.shared_cpus),
            ('numa_nodes', format_columns.ListDictColumn(found.numa_nodes)),
            ('placement_request',
             format_columns.DictColumn(found.placement_request)),
            ('extra_specs', format_columns.DictColumn(found.extra_specs))),
            strict=True)
