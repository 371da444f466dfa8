# SPDX-License-Identifier: Apache-2.0

"""The files for Kolla, with kolla and kolla-ansible themselves."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from kolla.common import config
from kolla.image import kolla_worker
from oslo_config import cfg
import pytest

ROOT = pathlib.Path(__file__).parents[2]
OVERLAY = ROOT / 'etc' / 'kolla'
SERVICES = ROOT / 'etc' / 'nova_prio' / 'services'
PROGRAMS = pathlib.Path(sys.executable).parent
KOLLA_ANSIBLE = pathlib.Path(sys.prefix) / 'share' / 'kolla-ansible'
ADDRESS = '192.0.2.1'
#: Variables whose defaults need a host or a collection of Ansible.
VARIABLES = {
    'ansible_python_interpreter': sys.executable,
    'api_interface_address': ADDRESS,
    'kolla_ansible': str(KOLLA_ANSIBLE / 'ansible'),
    'kolla_internal_vip_address': ADDRESS,
    'kolla_same_external_internal_vip': True,
    'migration_interface_address': ADDRESS,
    'passwords': str(KOLLA_ANSIBLE / 'etc_examples/kolla/passwords.yml'),
}


def run(command, **environment):
    """Run a program of this Python, which must succeed."""
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PATH': '%s:%s' % (PROGRAMS, os.environ['PATH']),
             **environment})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_image_of_nova_gets_the_plugin_and_its_libraries(tmp_path):
    """The steps of ``kolla-build --template-only``."""
    conf = cfg.ConfigOpts()
    config.parse(conf, [
        '--config-file', str(OVERLAY / 'kolla-build.conf'),
        '--template-override', str(OVERLAY / 'template-overrides.j2'),
        '--template-only', '--work-dir', str(tmp_path), '^nova-base'],
        prog='kolla-build')
    worker = kolla_worker.KollaWorker(conf)
    worker.setup_working_dir()
    worker.find_dockerfiles()
    worker.create_dockerfiles()
    worker.build_image_list()
    image, = (image for image in worker.images if image.name == 'nova-base')
    plugin, = (plugin for plugin in image.plugins
               if plugin['name'] == 'nova-base-plugin-nova-prio')
    assert ('local', '/opt/nova-prio/nova_prio.tar.gz') == (
        plugin['type'], plugin['source'])
    rendered = (tmp_path / 'docker/nova/nova-base/Dockerfile').read_text()
    assert '/nova cliff osc-lib tqdm ' in rendered
    assert '/plugins/*' in rendered


@pytest.fixture(scope='module')
def merged(tmp_path_factory):
    """A function that returns the options of a service, after the merge.

    It returns a dict, section -> dict, option -> list of values.
    """
    directory = tmp_path_factory.mktemp('merged')
    shutil.copytree(SERVICES, directory / 'config' / 'nova')
    variables = {**VARIABLES, 'output': str(directory),
                 'node_custom_config': str(directory / 'config')}
    ansible = KOLLA_ANSIBLE / 'ansible'
    run(['ansible-playbook', '--inventory', ansible / 'inventory/all-in-one',
         '--extra-vars', json.dumps(variables),
         ROOT / 'tests/installers/kolla.yml'],
        ANSIBLE_ACTION_PLUGINS=str(ansible / 'action_plugins'),
        ANSIBLE_FILTER_PLUGINS=str(ansible / 'filter_plugins'),
        ANSIBLE_LIBRARY=str(ansible / 'library'),
        ANSIBLE_MODULE_UTILS=str(ansible / 'module_utils'),
        ANSIBLE_LOCAL_TEMP=str(directory / 'tmp'),
        ANSIBLE_HOME=str(directory / 'home'))

    def read(service):
        sections = {}
        cfg.ConfigParser(
            str(directory / (service + '.conf')), sections).parse()
        return sections
    return read


@pytest.mark.parametrize('service', ['nova-compute', 'nova-scheduler',
                                     'nova-api'])
def test_merge_keeps_each_option_of_the_package(merged, service):
    found = merged(service)
    own = {}
    cfg.ConfigParser(str(SERVICES / (service + '.conf')), own).parse()
    assert own
    for section, options in own.items():
        for option, values in options.items():
            assert values == found[section][option], (section, option)
    # The options of Kolla Ansible are still there.
    assert found['DEFAULT']['state_path'] == ['/var/lib/nova']
