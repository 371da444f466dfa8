# SPDX-License-Identifier: Apache-2.0

"""pbr takes the version from tags: none is written in ``setup.cfg``."""

import configparser
import pathlib
import shutil
import subprocess
import sys

from pbr import packaging
import pytest

NAME = 'nova-prio'
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def commit(monkeypatch, tmp_path):
    """Enter a new clone without history; return a function that commits."""
    monkeypatch.chdir(tmp_path)
    for variable in 'PBR_VERSION', 'OSLO_PACKAGE_VERSION':
        monkeypatch.delenv(variable, raising=False)
    for role in 'AUTHOR', 'COMMITTER':
        monkeypatch.setenv('GIT_%s_NAME' % role, 'Somebody')
        monkeypatch.setenv('GIT_%s_EMAIL' % role, 'somebody@example.org')
    git('init')

    def add_commit(footer='Sem-Ver: bugfix'):
        git('commit', '--allow-empty', '-m', 'Change it\n\nWhy.\n\n' + footer)
    return add_commit


def git(*words):
    """Run git without the settings of the user."""
    subprocess.run(['git', '-c', 'core.hooksPath=/dev/null',
                    '-c', 'commit.gpgSign=false', '-c', 'tag.gpgSign=false',
                    *words], check=True, capture_output=True)


def read_version():
    """Return the version of the current directory, as pbr builds it."""
    config = configparser.ConfigParser()
    config.read(ROOT / 'setup.cfg')
    return packaging.get_version(
        NAME, config['metadata'].get('version'))


def test_commits_without_tag_lead_to_the_first_release(commit):
    commit('Sem-Ver: api-break')
    # pbr does not count the first commit.
    commit()
    assert read_version() == '1.0.0.dev1'


@pytest.mark.parametrize('options', ([], ['--annotate', '-m', 'Release']))
def test_tag_is_the_version(commit, options):
    commit('Sem-Ver: api-break')
    git('tag', *options, '1.0.0')
    assert read_version() == '1.0.0'


@pytest.mark.parametrize('footer,version', (
    ('Sem-Ver: bugfix', '1.0.1.dev1'),
    ('Sem-Ver: feature', '1.1.0.dev1'),
    ('Sem-Ver: api-break', '2.0.0.dev1')))
def test_commit_after_a_tag_leads_to_the_next_release(
        commit, footer, version):
    commit('Sem-Ver: api-break')
    git('tag', '1.0.0')
    commit(footer)
    assert read_version() == version


def test_each_later_tag_is_accepted(commit):
    commit('Sem-Ver: api-break')
    git('tag', '1.0.0')
    commit()
    git('tag', '1.2.0')
    assert read_version() == '1.2.0'


def test_archive_needs_no_history(commit, tmp_path):
    (tmp_path / 'PKG-INFO').write_text('Name: %s\nVersion: 1.0.0\n' % NAME)
    assert read_version() == '1.0.0'


@pytest.mark.parametrize('tool', ['tools/deb', 'tools/wheel'])
@pytest.mark.parametrize('arguments', [[], ['--help']])
def test_build_without_directory_is_refused(tool, arguments):
    done = subprocess.run([ROOT / tool, *arguments], capture_output=True,
                          text=True)
    assert (2, '') == (done.returncode, done.stdout)
    assert done.stderr.startswith('Usage: %s DIRECTORY [' % tool)
    assert 1 == done.stderr.count('\n')


@pytest.mark.parametrize('build_of,version', (
    ('0.9.0', '0.9.0'), ('', '1.0.0~dev1')))
def test_debian_packages_have_this_version(
        commit, monkeypatch, tmp_path, build_of, version):
    """In place of dpkg-buildpackage, a program keeps the changelog.

    :param build_of: commit to build, '' for the work tree
    """
    for name in 'tools/deb', 'tools/lib.sh', 'debian/changelog':
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / '.gitignore').write_text('programs/\nout/\n')
    git('add', '.')
    git('commit', '-m', 'Add all files')
    git('tag', '0.9.0')
    commit('Sem-Ver: api-break')
    programs = tmp_path / 'programs'
    programs.mkdir()
    build = programs / 'dpkg-buildpackage'
    build.write_text('#!/bin/sh\ncp debian/changelog ../a.changes\n'
                     'touch ../a.deb ../a.buildinfo\n')
    build.chmod(0o755)
    for directory in pathlib.Path(sys.executable).parent, programs:
        monkeypatch.setenv('PATH', str(directory), prepend=':')
    subprocess.run(['tools/deb', 'out', build_of], check=True,
                   capture_output=True)
    first_line = (tmp_path / 'out/a.changes').read_text().splitlines()[0]
    assert first_line == 'nova-prio (%s) trixie; urgency=medium' % version
