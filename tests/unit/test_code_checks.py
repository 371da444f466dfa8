# SPDX-License-Identifier: Apache-2.0

"""``tools/density``, ``tools/size`` and ``tools/words``, which count text."""

import pathlib
import subprocess
import sys

import pytest

_TOOLS = pathlib.Path(__file__).parents[2] / 'tools'
_CLEAN = '''"""Docstring."""


class Row:
    """Docstring."""


def make(limits, name=None):
    """Return a row."""
    # A comment.
    return Row(first=1, second=2, third=limits[name])
'''
#: Pattern -> statement with it, in a function.
_STATEMENTS = {
    'positional': 'found = Row(1, 2, 3)',
    'star': 'found = [*limits]',
    'nested': 'found = [each for row in limits for each in row]',
    'unpacked': 'first, second = map(str, limits)',
    'choice': 'print(limits if name else 1)',
    'functional': 'found = list(map(str, limits))',
}


def run(tool, *arguments):
    return subprocess.run([sys.executable, _TOOLS / tool, *arguments],
                          capture_output=True, text=True)


@pytest.fixture
def write(tmp_path):
    """Function that writes the module of a directory."""
    def write_module(text):
        (tmp_path / 'module.py').write_text(text)
        return tmp_path

    return write_module


def test_clean_module_passes(write):
    done = run('density', '--check', write(_CLEAN))
    assert ('', '', 0) == (done.stdout, done.stderr, done.returncode)


@pytest.mark.parametrize('pattern', _STATEMENTS)
def test_pattern_is_found(write, pattern):
    directory = write(_CLEAN.replace(
        '    # A comment.', '    ' + _STATEMENTS[pattern]))
    done = run('density', '--check', directory)
    assert 1 == done.returncode
    assert '%s: %s is ' % (directory, pattern) in done.stdout
    assert '%s/module.py:10\n' % directory == run(
        'density', '--list', pattern, directory).stdout


def test_undocumented_functions_are_left_out_of_the_sum(write):
    directory = write(_CLEAN + '\n\ndef run():\n' + '    print()\n' * 9)
    assert 0 == run('density', '--check', directory).returncode
    figures = run('density', directory).stdout.split()
    assert '50.0' == figures[figures.index('undocumented') + 1]


def test_docstrings_and_comments_have_no_size(write):
    directory = write(_CLEAN)
    before = run('size', directory).stdout
    write('\n'.join(line for line in _CLEAN.splitlines()
                    if '"""' not in line and '#' not in line).replace(
        'class Row:', 'class Row: ...'))
    bare = run('size', directory)
    assert int(before.split()[0]) + 1 == int(bare.stdout.split()[0])


def test_size_has_a_limit(write):
    directory = write(_CLEAN)
    size = int(run('size', directory).stdout.split()[0])
    assert 0 == run('size', '--limit', str(size), directory).returncode
    done = run('size', '--limit', str(size - 1), directory)
    assert 1 == done.returncode
    assert 'At most %d tokens are allowed.' % (size - 1) in done.stdout


@pytest.fixture
def pages(tmp_path):
    """A directory with pages of three and of two words."""
    (tmp_path / 'user').mkdir()
    (tmp_path / 'index.rst').write_text('One two\nthree\n')
    (tmp_path / 'user' / 'index.rst').write_text('Four five\n')
    (tmp_path / 'user' / 'map.svg').write_text('not a page\n')
    return tmp_path


def test_all_pages_have_a_limit(pages):
    assert 0 == run('words', '--limit', '5', pages).returncode
    done = run('words', '--limit', '4', pages)
    assert 1 == done.returncode
    assert 'All pages have at most 4 words.' in done.stdout


def test_each_page_has_a_limit(pages):
    assert 0 == run('words', '--page-limit', '3', pages).returncode
    page = pages / 'index.rst'
    done = run('words', '--page-limit', '2', page, pages / 'user')
    assert 1 == done.returncode
    assert '%s: a page has at most 2 words.\n' % page == (
        done.stdout.split(' sum\n')[1])
