# SPDX-License-Identifier: Apache-2.0

"""Write nova-prio-host as one file: python3 -m nova_prio.virt.cgroups FILE."""

import pathlib
import shutil
import sys
import tempfile
import zipapp

PACKAGE = pathlib.Path(__file__).parents[2]
START = ('import sys\nfrom nova_prio.cmd import host\n'
         'sys.exit(host.main())\n')


def write(path):
    """Write an executable zip archive that Python 3.8 or later runs."""
    with tempfile.TemporaryDirectory() as stage:
        (pathlib.Path(stage) / '__main__.py').write_text(START)
        for file in ('__init__.py', 'cmd/__init__.py', 'cmd/host.py',
                     'virt/__init__.py', 'virt/cgroups/__init__.py',
                     'virt/cgroups/hierarchies.py', 'virt/cgroups/host.py'):
            copy = pathlib.Path(stage, 'nova_prio', file)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PACKAGE / file, copy)
        zipapp.create_archive(stage, path, '/usr/bin/env python3')
    # zipapp lets only the owner run it, and the check needs no root.
    pathlib.Path(path).chmod(0o755)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
