# SPDX-License-Identifier: Apache-2.0

import pytest

from tests.debian import chroot

#: Environment variable with a Debian 13 that has what a build requires.
BUILD_BASE = 'NOVA_PRIO_TEST_DEBIAN'


@pytest.fixture(scope='session')
def builder(tmp_path_factory):
    """A chroot.Root that has what a build requires."""
    return chroot.Root(chroot.find_base(BUILD_BASE),
                       tmp_path_factory.mktemp('builder'))


@pytest.fixture(scope='session')
def build(builder):
    """A function that builds the packages into a directory of the builder.

    Its arguments are the name of the directory, and those of ``tools/deb``
    after the directory. It returns a dict, name -> pathlib.Path.
    """
    def run(name, *arguments):
        builder.check('/mnt/source/tools/deb', '/mnt/shared/' + name,
                      *arguments, DEB_BUILD_PROFILES='pkg.nova-prio.nohtml')
        return find_packages(builder.shared / name)
    return run


@pytest.fixture(scope='session')
def built(build):
    """The packages of this checkout: name -> pathlib.Path."""
    return build('first')


def find_packages(directory):
    """Return the packages in a directory: name -> pathlib.Path."""
    return {path.name.split('_')[0]: path
            for path in sorted(directory.glob('*.deb'))}
