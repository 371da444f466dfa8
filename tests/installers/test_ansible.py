# SPDX-License-Identifier: Apache-2.0

"""The Ansible role, with the linter and the parser of Ansible.

``tests/ansible`` runs the role.
"""

import os
import pathlib
import subprocess
import sys

import pytest
import yaml

ANSIBLE = pathlib.Path(__file__).parents[2] / 'ansible'
ROLE = ANSIBLE / 'roles' / 'nova_prio'
PROGRAMS = pathlib.Path(sys.executable).parent


@pytest.mark.parametrize('command', [
    ('ansible-lint', '--offline', '--strict', '--profile', 'production', '.'),
    ('ansible-playbook', '--syntax-check', '--inventory', 'inventory.example',
     'convert.yml', 'revert.yml')])
def test_command_finds_nothing(command, tmp_path):
    # ansible-lint keeps a directory in the home directory.
    environment = {**os.environ, 'HOME': str(tmp_path),
                   'PATH': '%s:%s' % (PROGRAMS, os.environ['PATH'])}
    done = subprocess.run(command, cwd=ANSIBLE, env=environment, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_variable_is_explained_with_its_default():
    defaults = yaml.safe_load((ROLE / 'defaults/main.yml').read_text())
    specs = yaml.safe_load((ROLE / 'meta/argument_specs.yml').read_text())
    options = specs['argument_specs']['main']['options']
    assert defaults == {name: option['default'] for name, option in
                        options.items() if not option.get('required')}
