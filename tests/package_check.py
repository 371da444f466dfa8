# SPDX-License-Identifier: Apache-2.0

"""Check the wheel and the source archive: ``package_check.py DIRECTORY``.

The directory holds both, and in ``again`` the wheel that was built from the
archive. Run with the Python of an environment that has the wheel, and Nova.
"""

import email
import importlib
import pathlib
import pkgutil
import sys
import zipfile

import nova_prio

PACKAGES = {'nova_prio', 'nova_prio_host', 'nova_prio_osc',
            'nova_prio_scenario'}
# The services of Nova run without the scenario player and its libraries.
OF_THE_PLAYER = {'fixtures', 'nova_prio_scenario', 'oslotest', 'testtools',
                 'wsgi_intercept'}


def read_wheel(path):
    """Return the files of a wheel and its metadata, a message.

    pbr.json names the commit if the wheel is built in a clone.
    """
    with zipfile.ZipFile(path) as wheel:
        files = {name.replace(path.name.split('-py3')[0], 'VERSION')
                 for name in wheel.namelist()
                 if not name.endswith('/pbr.json')}
        metadata, = (name for name in wheel.namelist()
                     if name.endswith('.dist-info/METADATA'))
        return files, email.message_from_bytes(wheel.read(metadata))


def check_files(files):
    """Stop if the wheel has files of other packages, or lacks its own."""
    found = {name.split('/')[0] for name in files}
    assert found == PACKAGES | {'VERSION.data', 'VERSION.dist-info'}, found
    assert not [name for name in files
                if {'test', 'tests'}.intersection(name.split('/'))]
    for name in (*('nova_prio/admin/page/page.' + suffix
                   for suffix in ('css', 'html', 'js')),
                 'VERSION.dist-info/licenses/LICENSE',
                 'VERSION.data/data/etc/nova_prio/nova-prio.conf.sample'):
        assert name in files, '%s is not among %s' % (name, sorted(files))


def check_metadata(metadata):
    """Stop if the metadata of the wheel lacks a field."""
    # A build that misses a part of the history has a version below 1.0.0.
    assert not metadata['Version'].startswith('0.'), metadata['Version']
    for field in ('Summary', 'License', 'Requires-Python', 'Classifier',
                  'Description-Content-Type'):
        assert metadata[field], field
    assert {'cli', 'osc', 'scenario', 'test'} == set(
        metadata.get_all('Provides-Extra'))


def check_imports():
    """Stop if the services would import a library of the scenario player."""
    for module in pkgutil.walk_packages(nova_prio.__path__, 'nova_prio.'):
        if not module.name.startswith('nova_prio.cmd'):
            importlib.import_module(module.name)
    loaded = OF_THE_PLAYER.intersection(
        name.split('.')[0] for name in sys.modules)
    assert not loaded, loaded


def main(directory):
    """Check everything; the first difference ends the script."""
    directory = pathlib.Path(directory)
    wheel, = directory.glob('*.whl')
    again, = directory.glob('again/*.whl')
    archive, = directory.glob('*.tar.gz')
    assert wheel.name == again.name, (wheel.name, again.name)
    assert archive.name == wheel.name.split('-py3')[0] + '.tar.gz'
    files, metadata = read_wheel(wheel)
    assert files == read_wheel(again)[0], files ^ read_wheel(again)[0]
    check_files(files)
    check_metadata(metadata)
    check_imports()
    print('%s has %d files, as the wheel from %s' % (
        wheel.name, len(files), archive.name))


if __name__ == '__main__':
    main(sys.argv[1])
