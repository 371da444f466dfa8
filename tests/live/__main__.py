# SPDX-License-Identifier: Apache-2.0

"""Start, stop and check a cloud: ``python -m tests.live up --directory D``."""

import argparse
import pathlib
import sys

from tests.live import cloud
from tests.live import layout as layouts
from tests.live import watch


def main():
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m tests.live', description=__doc__)
    parser.add_argument('command', choices=('up', 'down', 'status', 'check'))
    parser.add_argument(
        '--directory', type=pathlib.Path, required=True,
        help='directory of all files of the cloud')
    parser.add_argument(
        '--first-port', type=int, default=layouts.Layout.first_port,
        help='first of %d consecutive ports; for "up"' % len(
            layouts.LISTENERS))
    parser.add_argument(
        '--hosts', type=int, default=len(layouts.Layout.hosts),
        help='number of compute hosts; for "up"')
    parser.add_argument(
        '--nova', type=pathlib.Path, default=layouts.PROGRAMS.parent,
        help='virtual environment of Nova and this package; for "up"')
    parser.add_argument(
        '--seconds', type=int, default=0,
        help='maximum time for the cloud to settle; for "check"')
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    try:
        if arguments.command == 'up':
            layout = layouts.Layout.of_size(
                directory, arguments.first_port, arguments.hosts)
            cloud.Cloud(layout, nova=arguments.nova).up()
            return 0
        found = cloud.Cloud(layouts.Layout.load(directory))
        if arguments.command == 'down':
            found.down()
            return 0
        if arguments.command == 'check':
            outcome = watch.settle(found.layout, arguments.seconds)
            for sentence in outcome.violations:
                print(sentence)
            return 1 if outcome.violations else 0
        status = found.status()
        for name, pid in sorted(status.items()):
            print('%-24s %s' % (name, pid or 'ended'))
        return 0 if status and all(status.values()) else 1
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
