# SPDX-License-Identifier: Apache-2.0

"""Write nova-prio-host as one file: python3 -m nova_prio.virt.cgroups FILE."""

import pathlib
import sys
import zipfile

PACKAGE = pathlib.Path(__file__).parents[2]
START = ('import sys\nfrom nova_prio.cmd import host\n'
         'sys.exit(host.main())\n')
MODULES = ('__init__.py', 'cmd/__init__.py', 'cmd/host.py', 'virt/__init__.py',
           'virt/cgroups/__init__.py', 'virt/cgroups/hierarchies.py',
           'virt/cgroups/host.py')


def write(path):
    """Write an executable zip archive that Python 3.8 or later runs."""
    with open(path, 'wb') as file:
        file.write(b'#!/usr/bin/env python3\n')
        with zipfile.ZipFile(file, 'w') as archive:
            archive.writestr('__main__.py', START)
            for name in MODULES:
                archive.write(PACKAGE / name, 'nova_prio/' + name)
    # Everyone may run it: only prepare needs root.
    pathlib.Path(path).chmod(0o755)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
