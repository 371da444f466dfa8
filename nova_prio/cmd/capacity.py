# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The commands ``nova-prio capacity``."""

from cliff import show
from osc_lib import exceptions

from nova_prio import capacity
from nova_prio import solver


class Solve(show.ShowOne):
    """Show what a host sells, or what it needs to sell a wanted number.

    With the numbers of dedicated and shared CPUs and the allocation ratio it
    shows what the host sells. With two of the three and what is wanted, it
    finds the third, which sells that and as little more as possible.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        for name in ('dedicated', 'shared'):
            parser.add_argument(
                '--' + name, type=int, metavar='CPUS',
                help='number of CPUs in [compute] cpu_%s_set' % name)
        parser.add_argument(
            '--ratio', metavar='RATIO', help='CPU allocation ratio')
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument(
            '--low-vcpus', type=int, metavar='VCPUS',
            help='wanted: vCPUs of low-priority instances beside the high row')
        wanted.add_argument(
            '--overall-ratio', metavar='RATIO',
            help='wanted: vCPUs of all instances for each CPU of the host')
        parser.add_argument(
            '--no-mix', dest='mix', action='store_false',
            help='low-priority instances float on the shared CPUs alone, as '
            'without cpu_priority_mix_enable')
        return parser

    def take_action(self, parsed_args):
        """Return the names and the values to show, in their order."""
        terms = solver.Terms(
            *(_whole(parsed_args, name, int(parsed_args.mix),
                     solver.MOST_CPUS) for name in ('dedicated', 'shared')),
            _ratio(parsed_args, 'ratio'), parsed_args.mix)
        low = _whole(parsed_args, 'low_vcpus', 1,
                     2 * solver.MOST_CPUS * solver.MOST_RATIO)
        overall = _ratio(parsed_args, 'overall_ratio')
        wanted = [value for value in (low, overall) if value is not None]
        if terms.count(None) != len(wanted):
            raise exceptions.CommandError(
                'Of --dedicated, --shared and --ratio %d are given, %s; '
                'allowed are all three, or two of them with --low-vcpus or '
                '--overall-ratio.'
                % (3 - terms.count(None), 'with what is wanted' if wanted
                   else 'and nothing that is wanted'))
        if wanted:
            try:
                terms = solver.solve(terms, low, overall)
            except solver.Impossible as error:
                raise exceptions.CommandError(str(error)) from error
        rows = terms.sellable
        if terms.mix and not rows.low:
            raise exceptions.CommandError(
                'The ratio %s leaves no low-priority vCPU to sell on %d '
                'dedicated and %d shared CPUs, which nova-compute refuses '
                'with cpu_priority_mix_enable; allowed is a larger one, or '
                '--no-mix.' % (terms.ratio, terms.dedicated, terms.shared))
        return zip(*(
            ('dedicated', terms.dedicated), ('shared', terms.shared),
            ('ratio', float(terms.ratio)), ('mix', terms.mix),
            ('high_vcpus', rows.high), ('low_vcpus', rows.low),
            ('ordinary_vcpus', rows.ordinary),
            ('overall_ratio', round(float(terms.overall_ratio), 4))),
            strict=True)


def _whole(parsed_args, name, least, most):
    value = getattr(parsed_args, name)
    if value is not None and not least <= value <= most:
        raise exceptions.CommandError(
            '--%s is %d; allowed is a whole number from %d to %d.'
            % (name.replace('_', '-'), value, least, most))
    return value


def _ratio(parsed_args, name):
    text = getattr(parsed_args, name)
    if text is None:
        return None
    try:
        value = capacity.exact_ratio(text)
    except ValueError:
        value = None
    if value is None or value > solver.MOST_RATIO:
        raise exceptions.CommandError(
            "--%s is '%s'; allowed is a number from 0 to %d."
            % (name.replace('_', '-'), text, solver.MOST_RATIO))
    return value
