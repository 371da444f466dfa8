# SPDX-License-Identifier: Apache-2.0

"""Check the files of a release: ``package_check.py DIRECTORY``.

``tools/release`` has written them to the directory. Run with the Python of an
environment that has the wheel, and Nova.
"""

import email
import hashlib
import importlib
import json
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
    """Return the files of a wheel and its metadata, a message."""
    with zipfile.ZipFile(path) as wheel:
        files = {name.replace(path.name.split('-py3')[0], 'VERSION')
                 for name in wheel.namelist()}
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
    for field in ('Version', 'Summary', 'License', 'Requires-Python',
                  'Classifier', 'Description-Content-Type'):
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


def check_sums(directory, names):
    """Stop if SHA256SUMS differs from the other files of a release.

    :param names: set of their names
    """
    sums = {}
    for line in (directory / 'SHA256SUMS').read_text().splitlines():
        digest, name = line.split()
        sums[name] = digest
    assert sums.keys() == names, sums.keys() ^ names
    for name, digest in sums.items():
        content = (directory / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name


def check_sbom(sbom, version):
    """Stop if the SBOM has other components than the wheel requires.

    :param sbom: the content of the CycloneDX file, a dict
    """
    component = sbom['metadata']['component']
    assert (component['name'], component['version']) == (
        'nova-prio', version), component
    required = {}
    for dependency in sbom['dependencies']:
        required[dependency['ref']] = dependency.get('dependsOn', ())
    names = {each.split('==')[0] for each in required[component['bom-ref']]}
    assert {'lxml', 'oslo.config', 'stevedore'} < names, names
    components = {each['name'] for each in sbom['components']}
    assert names < components, names - components
    # The package is installed beside Nova, and does not require it.
    assert 'nova' not in components


def main(directory):
    """Check everything; the first difference ends the script."""
    directory = pathlib.Path(directory)
    wheel, = directory.glob('*.whl')
    files, metadata = read_wheel(wheel)
    name = 'nova_prio-' + metadata['Version']
    check_sums(directory, {wheel.name, name + '.tar.gz', name + '.cdx.json',
                           name + '.notes.md'})
    check_files(files)
    check_metadata(metadata)
    check_sbom(json.loads((directory / (name + '.cdx.json')).read_text()),
               metadata['Version'])
    check_imports()
    print('%s has %d files' % (wheel.name, len(files)))


if __name__ == '__main__':
    main(sys.argv[1])
