# SPDX-License-Identifier: Apache-2.0

"""Install the client plug-in without Nova: ``client_check.py DIRECTORY``.

The directory holds the wheel, and gets a new virtual environment. Nova must
not be necessary for ``openstack priority``.
"""

import pathlib
import subprocess
import sys
import venv

CONSTRAINTS = pathlib.Path(__file__).parents[1] / 'constraints' / 'nova34.txt'
COMMANDS = ('capacity list', 'project list', 'server list')
# Exits with 1 if one of the modules can be imported.
ABSENT = ('import importlib.util, sys; sys.exit(any(map('
          'importlib.util.find_spec, ("nova", "placement", "libvirt"))))')
IMPORT = ('import pkgutil, importlib, nova_prio_osc; [importlib.import_module('
          'found.name) for found in pkgutil.iter_modules('
          'nova_prio_osc.__path__, "nova_prio_osc.")]')


def main(directory):
    """Install and run the commands; the first error ends the script."""
    directory = pathlib.Path(directory).resolve()
    wheel, = directory.glob('nova_prio-*.whl')
    programs = directory / 'client' / 'bin'
    venv.create(programs.parent, clear=True, with_pip=True)

    def run(program, *words):
        """Run a program of the environment; return its output."""
        return subprocess.run(
            [programs / program, *words], cwd=directory, check=True,
            stdout=subprocess.PIPE, text=True).stdout

    run('python', '-m', 'pip', 'install', '-qq', '-c', CONSTRAINTS,
        '%s[osc]' % wheel)
    run('python', '-c', ABSENT)
    run('python', '-c', IMPORT)
    help_text = run('openstack', 'priority', '--help')
    for command in COMMANDS:
        assert 'priority %s\n' % command in help_text + '\n', help_text
        run('openstack', 'priority', *command.split(), '--help')
    print('%s runs in the client without Nova' % wheel.name)


if __name__ == '__main__':
    main(sys.argv[1])
