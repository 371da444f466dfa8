# SPDX-License-Identifier: Apache-2.0

"""Numbers and operations from the environment."""

import pytest

from tests.fuzz import settings

NAME = 'NOVA_PRIO_FUZZ_TESTED'


@pytest.mark.parametrize('text, expected', [
    ('7', 7), ('1', 1), ('', 1000), (None, 1000)])
def test_number(monkeypatch, text, expected):
    monkeypatch.delenv(NAME, raising=False)
    if text is not None:
        monkeypatch.setenv(NAME, text)
    assert expected == settings.read_number(NAME, 1000, least=1)


@pytest.mark.parametrize('text', ['0', '-1', 'many', '1.5', '\u00b2', ' '])
def test_bad_number(monkeypatch, text):
    monkeypatch.setenv(NAME, text)
    with pytest.raises(ValueError, match='^%s=%s is not a whole number of at '
                                         'least 1$' % (NAME, text)):
        settings.read_number(NAME, 1000, least=1)


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Return a function that writes the lines of a replay."""
    def write(*lines):
        path = tmp_path / 'operations'
        path.write_text('\n'.join(lines))
        monkeypatch.setenv(NAME, str(path))
        return path

    return write


def test_operations(write):
    write('create s0 high-1 any', '', 'host_down mix1', 'resize s0 low-1 any')
    assert [['create', 's0', 'high-1', 'any'], ['host_down', 'mix1'],
            ['resize', 's0', 'low-1', 'any']] == settings.read_operations(NAME)


def test_no_replay(monkeypatch):
    monkeypatch.setenv(NAME, '')
    assert settings.read_operations(NAME) is None


@pytest.mark.parametrize('line, sentence', [
    ('crate s1 high-1 any', 'there is no operation "crate"'),
    ('possible s1', 'there is no operation "possible"'),
    ('_recount mix1', 'there is no operation "_recount"'),
    ('create s1 high-1',
     'the words after "create" must be name, request, host'),
    ('recount', 'the words after "recount" must be host'),
    ('stop s0 now', 'the words after "stop" must be name'),
])
def test_malformed_line(write, line, sentence):
    path = write('create s0 high-1 any', line)
    with pytest.raises(ValueError, match='^Line 2 of %s: %s$' % (
            path, sentence)):
        settings.read_operations(NAME)


def test_file_without_operations(write):
    path = write('', ' ')
    with pytest.raises(ValueError, match='%s has no operation' % path):
        settings.read_operations(NAME)


def test_missing_file(monkeypatch):
    monkeypatch.setenv(NAME, '/nowhere/operations')
    with pytest.raises(ValueError, match='^%s=/nowhere/operations cannot be '
                                         'read: No such file' % NAME):
        settings.read_operations(NAME)
