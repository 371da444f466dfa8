# SPDX-License-Identifier: Apache-2.0

"""Files that the options of commands name."""

import os
from unittest import mock

from osc_lib import exceptions
import pytest

from nova_prio.cmd import output_file


def test_text_replaces_the_file(tmp_path):
    path = tmp_path / 'page.html'
    path.write_text('old')
    output_file.write('--html', str(path), 'né')
    assert 'né' == path.read_text('utf-8')
    output_file.write('--html', str(path), b'bytes')
    assert 'bytes' == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_link_and_device_stay(tmp_path):
    path, link = tmp_path / 'page.html', tmp_path / 'link.html'
    path.write_text('old')
    link.symlink_to(path)
    output_file.write('--html', str(link), 'new')
    assert (True, 'new') == (link.is_symlink(), path.read_text())
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output_file.write('--html', str(pipe), 'new')
    assert b'new' == os.read(reader, 9)
    os.close(reader)


def test_file_has_the_permissions_of_a_new_file(tmp_path):
    (tmp_path / 'new').touch()
    output_file.write('--html', str(tmp_path / 'page.html'), '')
    assert (tmp_path / 'new').stat().st_mode == (
        tmp_path / 'page.html').stat().st_mode


def test_error_keeps_the_old_file(tmp_path):
    path = tmp_path / 'page.html'
    path.write_text('old')
    error = OSError(28, os.strerror(28))
    with mock.patch('os.replace', side_effect=error), pytest.raises(
            exceptions.CommandError, match='No space left on device'):
        output_file.write('--html', str(path), 'new')
    assert 'old' == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_missing_directory_is_an_error(tmp_path):
    with pytest.raises(exceptions.CommandError) as caught:
        output_file.write('--html', str(tmp_path / 'no' / 'page.html'), '')
    assert str(caught.value) == (
        "--html is '%s/no/page.html', which cannot be written: No such file "
        'or directory.' % tmp_path)
