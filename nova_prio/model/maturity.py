# SPDX-License-Identifier: Apache-2.0

"""Which commands and options are stable, and which are new.

A stable name keeps its meaning in later releases. A new one may change in the
next release. The help, the documentation and the sample file take the marks
from here.
"""

from __future__ import annotations

import dataclasses
import typing

if typing.TYPE_CHECKING:
    import argparse

STABLE, NEW = 'stable', 'new'

#: Options of the commands that work on several hosts.
_SEVERAL_HOSTS = '--aggregate --all --concurrency'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """The maturity of a command, and the names of its options.

    ``maturity`` is that of the command itself. ``stable`` and ``new`` are the
    names of its options, separated by spaces. Arguments without a name belong
    to the command, and the options of cliff that format the output to cliff.
    """

    maturity: str
    stable: str = ''
    new: str = ''

    def get_options(self) -> dict[str, str]:
        """Return the maturity of each option by the name of the option."""
        marks = dict.fromkeys(self.stable.split(), STABLE)
        marks.update(dict.fromkeys(self.new.split(), NEW))
        return marks

    def describe(self) -> str:
        """Return a sentence for the help of the command.

        Of a stable command, it names the options that are new.
        """
        names = self.new.split()
        if self.maturity == NEW or not names:
            return 'Maturity: %s.' % self.maturity
        verb = 'is' if len(names) == 1 else 'are'
        listed = ', '.join(names[:-1])
        if listed:
            listed += ' and '
        return 'Maturity: %s, but %s %s new.' % (
            self.maturity, listed + names[-1], verb)


#: Program and subcommand -> Command.
COMMANDS = {
    'nova-prio audit': Command(
        maturity=STABLE,
        stable='--all --config-file --dry-run --fix --host --yes',
        new='--config-dir'),
    'nova-prio capacity gain': Command(
        maturity=STABLE, stable='--config-file --flavor',
        new='--aggregate --all --config-dir --demand --growth --host --html '
        '--low --ratio --what-if'),
    'nova-prio capacity show': Command(
        maturity=STABLE, stable='--aggregate --by-aggregate --config-file '
        '--flavor --host --html', new='--after-loss --config-dir'),
    'nova-prio explain': Command(
        maturity=STABLE,
        stable='--config-file --flavor --hint --host --image',
        new='--config-dir'),
    'nova-prio flavor compile': Command(
        maturity=STABLE, stable='--disk --hint --image-property --property '
        '--ram --vcpus'),
    'nova-prio host disable': Command(
        maturity=STABLE,
        stable='--config-file --dry-run --plan --timeout --yes',
        new='--config-dir ' + _SEVERAL_HOSTS),
    'nova-prio host drain': Command(
        maturity=NEW, new='--aggregate --allow --batch --concurrency '
        '--config-dir --config-file --done --dry-run --os-cloud --timeout '
        '--within --yes'),
    'nova-prio host enable': Command(
        maturity=NEW,
        new='--config-dir --config-file --dry-run --yes ' + _SEVERAL_HOSTS),
    'nova-prio host plan': Command(
        maturity=STABLE,
        stable='--config-file --dedicated --no-mix --ratio --shared',
        new='--config-dir --output-dir ' + _SEVERAL_HOSTS),
    'nova-prio host return': Command(
        maturity=NEW,
        new='--config-dir --config-file --dry-run --force --os-cloud --yes'),
    'nova-prio host verify': Command(
        maturity=STABLE, stable='--config-file --plan',
        new='--config-dir ' + _SEVERAL_HOSTS),
    'nova-prio metrics': Command(
        maturity=STABLE, stable='--config-file --no-audit --output',
        new='--config-dir --flavor'),
    'nova-prio room plan': Command(
        maturity=NEW, new='--aggregate --apply --config-dir --config-file '
        '--count --dry-run --flavor --os-cloud --timeout --yes'),
    'nova-prio scenario play': Command(
        maturity=STABLE, stable='--format --html'),
    'nova-prio uninstall-check': Command(
        maturity=STABLE, stable='--config-file', new='--config-dir'),
    'nova-prio-host': Command(
        maturity=STABLE, stable='--high-weight --io-weight --json '
        '--low-weight --memory-low --memory-min --output --root'),
    'nova-prio-status upgrade check': Command(
        maturity=STABLE, stable='--config-dir --config-file'),
    'openstack priority capacity list': Command(
        maturity=NEW, new='--aggregate --flavor'),
    'openstack priority project list': Command(
        maturity=NEW, new='--all-projects --host --project'),
    'openstack priority server list': Command(
        maturity=NEW, new='--all-projects --host --project'),
}

#: Name of an option of nova.conf -> its maturity.
OPTIONS = {
    'cpu_priority_mix_enable': STABLE,
    'enabled': STABLE,
    'low_emulator_set': STABLE,
    'priority_weight_multiplier': STABLE,
    'low_supply_weight_multiplier': NEW,
    'affinity_domains': STABLE,
    'affinity_same_priority': STABLE,
    'soft_affinity_weight_multiplier': STABLE,
    'soft_anti_affinity_weight_multiplier': STABLE,
}


def mark(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the maturity of a command to the end of its help.

    :param parser: its ``prog`` is a key of ``COMMANDS``, such as 'nova-prio
        audit'. The help of the commands of ``openstack`` gets no mark: there,
        ``prog`` is without the name of the program, and so is no key.
    :returns: the same parser
    """
    command = COMMANDS.get(parser.prog)
    if command:
        # The epilog is the text at the end of the help, or None.
        parser.epilog = '\n\n'.join(
            filter(None, [command.describe(), parser.epilog]))
    return parser
