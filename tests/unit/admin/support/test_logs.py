# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg
from oslo_log import log
import pytest

from nova_prio.admin.support import logs
from nova_prio.admin.support import source

LINE = '2026-11-26 07:00:00.000 7 %s %s [-] %s'
OURS = LINE % ('INFO', 'nova_prio.compute.usage', 'Host c1: corrected.')
NOT_OURS = [LINE % ('INFO', 'nova.compute.manager', 'nova_prio is loaded.'),
            '  File "/usr/lib/nova_prio/compute/usage.py"', '']


@pytest.fixture
def read():
    """Return a function that reads the logs with options."""
    def read(**options):
        conf = cfg.ConfigOpts()
        log.register_options(conf)
        conf([], default_config_files=[])
        for name, value in options.items():
            conf.set_override(name, value)
        return logs.read(source.Source(conf, None, None))
    return read


def test_last_lines_of_the_package_in_each_file(tmp_path, read):
    for name in 'nova-api', 'nova-compute':
        (tmp_path / (name + '.log')).write_text('\n'.join([
            *('%s %d' % (OURS, number) for number in range(logs.LINES + 2)),
            *NOT_OURS]))
    (tmp_path / 'other.log').write_text(OURS)
    found = read(log_dir=str(tmp_path))
    assert found[0] == '==> %s/nova-api.log <==' % tmp_path
    assert found[1:logs.LINES + 1] == [
        '%s %d' % (OURS, number) for number in range(2, logs.LINES + 2)]
    assert found[logs.LINES + 1] == '==> %s/nova-compute.log <==' % tmp_path


def test_log_file_is_in_log_dir(tmp_path, read):
    path = tmp_path / 'my[1].log'
    path.write_bytes(OURS.encode() + b' \xff\n')
    for options in ({'log_file': 'my[1].log', 'log_dir': str(tmp_path)},
                    {'log_file': str(path)}):
        assert read(**options) == ['==> %s <==' % path, OURS + ' \ufffd']


def test_only_the_end_of_a_file_is_searched(tmp_path, read, monkeypatch):
    monkeypatch.setattr(logs, '_SEARCHED_BYTES', 3 * len(OURS) + 3)
    path = tmp_path / 'nova-api.log'
    path.write_text('%s\n' % OURS * 9)
    assert read(log_dir=str(tmp_path))[1:] == [OURS] * 3


def test_unreadable_file_is_named(tmp_path, read):
    assert read(log_file=str(tmp_path)) == [
        '==> %s <==' % tmp_path,
        'This file cannot be read: Is a directory.']


@pytest.mark.parametrize('has_directory, text', [
    (False, r'log_dir are not set.*: journalctl --lines=1000'),
    (True, r'There is no file .*nova-\*\.log$')])
def test_missing_log_is_explained(tmp_path, read, has_directory, text):
    with pytest.raises(source.Unavailable, match=text):
        read(**({'log_dir': str(tmp_path)} if has_directory else {}))
