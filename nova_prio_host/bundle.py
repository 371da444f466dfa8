# SPDX-License-Identifier: Apache-2.0

"""Write nova-prio-host as one file: python3 -m nova_prio_host.bundle FILE."""

import pathlib
import sys
import zipfile

_PACKAGE = pathlib.Path(__file__).parent


def write(path):
    """Write an executable zip archive that Python 3.8 or later runs."""
    with open(path, 'wb') as file:
        file.write(b'#!/usr/bin/env python3\n')
        with zipfile.ZipFile(file, 'w') as archive:
            for module in sorted(_PACKAGE.glob('*.py')):
                archive.write(module, 'nova_prio_host/' + module.name)
            archive.write(_PACKAGE / '__main__.py', '__main__.py')
    # Everyone may run it: only prepare needs root.
    pathlib.Path(path).chmod(0o755)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
