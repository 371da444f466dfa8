# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status``: check a service before it starts.

``upgrade check`` compares the installed Nova with the interfaces that this
package relies on. It reads the configuration of the service on this host and,
if the configuration has Nova's databases, the host aggregates. It changes
nothing.
"""

import argparse
import functools
import logging
import sys
import textwrap
import warnings

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
from oslo_utils import importutils

from nova_prio.admin import config_files
from nova_prio.admin import upgrade_checks
from nova_prio.compat import hooks

#: Exit status of oslo.upgradecheck if a check itself fails.
UNUSABLE = 255
#: Width of the details in the table of oslo.upgradecheck.
_WIDTH = 60


class Checks(upgradecheck.UpgradeCommands):
    """The checks of ``upgrade check``."""

    display_title = 'Priority instances: check of the configuration'

    def __init__(self, conf, host_arguments=('check',)):
        """Prepare the checks.

        :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
        :param host_arguments: tuple, arguments of the program nova-prio-host.
            The check of the cgroups of this host runs this program.
        """
        checks = upgrade_checks.list_checks(host_arguments)
        self._upgrade_checks = []
        # ``service`` is the name of the service for whose configuration the
        # check is, or None for all. ``find`` yields the findings of the check.
        for title, service, find in checks:
            run = functools.partial(
                upgrade_checks.run_check, conf, service, find)
            self._upgrade_checks.append((title, run))

    def _get_details(self, upgrade_check_result):
        """Wrap the details, as the library does, but never within a word.

        The library breaks lines after the hyphens of UUIDs.
        """
        if upgrade_check_result.details is None:
            return None
        return textwrap.fill(
            upgrade_check_result.details, _WIDTH, subsequent_indent='  ',
            break_long_words=False, break_on_hyphens=False)

    def check(self):
        """Run all checks; return the worst code."""
        try:
            return super().check()
        except cfg.ConfigFileValueError as error:
            print('%s.' % error, file=sys.stderr)
            return upgrade_checks.FAILURE


def main():
    """Run the command line.

    :returns: exit status: 0 if all is right, 1 after a warning, 2 after a
        failure, 255 if the checks cannot run
    """
    # Operators cannot act on the warnings of Nova's libraries.
    warnings.simplefilter('ignore')
    if importutils.try_import('nova') is None:
        print('Nova is not installed beside this nova-prio; install both into '
              'the same environment, and run the command there.',
              file=sys.stderr)
        return UNUSABLE
    # Print no log line of Nova: the findings repeat it.
    logging.getLogger('nova').addHandler(logging.NullHandler())
    conf = hooks.register_options()
    # Debian's nova-compute.conf overrides the driver of nova.conf. Services on
    # other hosts have no such file.
    files = cfg.find_config_files('nova', 'nova-compute')
    try:
        return upgradecheck.main(
            conf, 'nova', Checks(conf), sys.argv[1:],
            default_config_files=files)
    except config_files.ERRORS as error:
        # A decoding error does not name its file, and oslo.config has not kept
        # the arguments. Read --config-file and --config-dir from them here:
        # the text names the file among theirs that cannot be decoded.
        parser = argparse.ArgumentParser(add_help=False)
        config_files.add_options(parser)
        options = parser.parse_known_args()[0].config_options
        print(config_files.format_read_error(error, options), file=sys.stderr)
        return UNUSABLE


if __name__ == '__main__':
    sys.exit(main())
