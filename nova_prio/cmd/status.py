# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status``: check a service before it starts.

``upgrade check`` reads the configuration of the service on this host and, if
the configuration has Nova's databases, the host aggregates. ``nova check``
checks only the installed Nova. Both change nothing.
"""

import argparse
import functools
import logging
import sys

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_prio.admin import config_files
from nova_prio.admin import upgrade_checks
from nova_prio.cmd import nova_check
from nova_prio.compat import hooks
from nova_prio_host import command as host_command

#: Exit status of oslo.upgradecheck if a check itself fails.
UNUSABLE = 255


class Checks(upgradecheck.UpgradeCommands):
    """The checks of ``upgrade check``."""

    display_title = 'Priority instances: check of the configuration'

    def __init__(self, conf, host_arguments=('check',)):
        """Prepare the checks.

        :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
        :param host_arguments: arguments of nova-prio-host
        """
        self._upgrade_checks = tuple(
            (name, functools.partial(
                upgrade_checks.run_check, conf, service, find))
            for name, service, find in upgrade_checks.list_checks(
                functools.partial(host_command.find_problems, host_arguments)))

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
        failure, 255 if a check itself failed
    """
    if sys.argv[1:2] == ['nova']:
        # This command must work even if the configuration is wrong.
        return nova_check.main(sys.argv[2:])
    # Print no log line of Nova: the findings repeat it.
    logging.getLogger('nova').addHandler(logging.NullHandler())
    conf = hooks.register_options()
    try:
        return upgradecheck.main(conf, 'nova', Checks(conf), sys.argv[1:])
    except config_files.ERRORS as error:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument('--config-file', action='append', default=[])
        files = parser.parse_known_args()[0].config_file
        print(config_files.format_read_error(error, files), file=sys.stderr)
        return UNUSABLE


if __name__ == '__main__':
    sys.exit(main())
