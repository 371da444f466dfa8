# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio report`` with a nova.conf full of secrets."""

import itertools
import json
import subprocess
import sys
import tarfile

from nova.conf import opts as nova_opts
from oslo_config import cfg
from oslo_config import types
import pytest

from nova_prio.admin.support import bundle
from nova_prio.admin.support import parts
from nova_prio.cmd import main
from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.virt import driver_alias

#: A part of each secret, and of no other text.
MARK = 'pla7nted'
#: A part of secrets that are only in the log, so that no option has them.
LEAK = 'le4ked'
#: Secrets with odd characters, as nova.conf spells them.
ODD = ('%s%%40%s', '%s@%s:%s/%s', "%s'%s", '%s"%s', '%s#%s;%s', '%s %s',
       '%s,%s', '%s$$%s', '%s\\%s', '%s ü %s', '%s\n  %s')
#: Options that say where the command must read, or that it cannot parse.
NOT_PLANTED = {'config_file', 'config_dir', 'config_source', 'log_dir',
               'log_file', 'log_config_append', 'state_path'}

LOG_LINE = '2026-11-26 07:00:00.000 7 ERROR %s [-] %s\n'
#: Message of a log line -> the line in the bundle.
MESSAGES = {
    'Host c1 is full.': 'Host c1 is full.',
    'X-Auth-Token: ' + LEAK: 'X-Auth-Token: ***',
    'token gAAAAAB%s== is old' % LEAK: 'token *** is old',
    "{'adminPass': '%s'}" % LEAK: "{'adminPass': ***",
    'http://u:%s@h/ fails' % LEAK: 'http://***@h/ fails',
    'it said %s-known' % MARK: 'it said ***'}


def list_options():
    """Return (group, option) of each option of Nova and its libraries."""
    conf = hooks.register_options()
    from nova import config  # noqa: F401  (registers the database options)
    registered = [('DEFAULT', conf._opts), *(
        (name, group._opts) for name, group in conf._groups.items())]
    found = {(group, info['opt'].dest): info['opt']
             for group, infos in registered for info in infos.values()}
    for group, options in nova_opts.list_opts():
        for option in options:
            found.setdefault((getattr(group, 'name', group), option.dest),
                             option)
    return found


def plant(api_connection):
    """Return the text of a nova.conf with a secret in each option."""
    # The secrets differ, so that the mask of one does not hide another.
    secrets = (odd.replace('%s', '%s%04d' % (MARK, number)).replace('%%', '%')
               for number, odd in enumerate(itertools.cycle(ODD)))
    sections = {'unknown': ['plain = ' + next(secrets),
                            'url = http://u:%s@h/' % next(secrets)],
                'keystone_authtoken': [
                    'password = %s-known' % MARK,
                    'memcache_secret_key = ' + next(secrets),
                    'memcached_servers = user:%s@h:11211' % next(secrets)]}
    for (group, name), option in list_options().items():
        secret = next(secrets)
        kind = option.type
        if (group, name) == ('api_database', 'connection'):
            value = api_connection
        elif name in NOT_PLANTED or isinstance(option, cfg.SubCommandOpt):
            continue
        elif isinstance(kind, types.Dict):
            value = 'a:http://u:%s@h/,password:%s' % (secret, secret)
        elif option.secret:
            value = ('mysql+pymysql://u:%s@h/nova' % secret
                     if 'connection' in name else secret)
        elif isinstance(kind, types.List):
            value = 'http://u:%s@h/,u:%s@h' % (secret, secret)
        elif (isinstance(kind, (types.String, types.URI)) and
              not getattr(kind, 'choices', None)):
            value = 'amqp://u:%s@h/,u:%s@h' % (secret, secret)
        else:
            continue
        sections.setdefault(group, []).append('%s = %s' % (name, value))
    return ''.join('[%s]\n%s\n' % (group, '\n'.join(lines))
                   for group, lines in sections.items())


def run(path, *arguments):
    """Run the command; return the CompletedProcess."""
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.main', 'report',
         '--config-file', str(path), *arguments],
        capture_output=True, text=True)


@pytest.fixture
def report(tmp_path):
    """Return a function that writes a bundle with a nova.conf."""
    def report(path):
        """Return the rows, and dict, name of a file -> its bytes."""
        output = tmp_path / 'report.tar.gz'
        done = run(path, '--output', str(output), '-f', 'json')
        assert done.returncode == 0, done.stderr
        assert done.stderr == ('%s is written. Look through its files before '
                               'you send it.\n' % output)
        assert output.stat().st_mode & 0o777 == 0o600
        rows = {row['File']: row['State'] for row in json.loads(done.stdout)}
        assert list(rows) == [part.name for part in parts.ALL]
        with tarfile.open(output) as archive:
            files = {member.name: archive.extractfile(member).read()
                     for member in archive}
        directory, = {name.rpartition('/')[0] for name in files}
        files = {name.rpartition('/')[2]: files[name] for name in files}
        assert set(files) == {'index.txt', *(
            name for name, state in rows.items() if state == bundle.OK)}
        index = files['index.txt'].decode()
        for name, state in rows.items():
            assert name + ': ' in index
            assert '    %s\n' % state in index
        return rows, files, done.stdout
    return report


def test_no_secret_is_in_the_bundle(tmp_path, report):
    path = tmp_path / 'nova.conf'
    path.write_text(plant('sqlite:///%s/%s.db' % (tmp_path, MARK)) +
                    '[DEFAULT]\nlog_dir = %s\n[VNC]\nnovncproxy_port = 7\n'
                    % tmp_path)
    (tmp_path / 'nova-compute.log').write_text(''.join(
        LOG_LINE % line for line in [('nova.compute', 'Not ours.'), *(
            ('nova_prio.compute.usage', message) for message in MESSAGES)]))
    rows, files, table = report(path)
    # The other parts may fail because of these values.
    for name in 'versions.json', 'configuration.json', 'log.txt':
        assert rows[name] == bundle.OK, rows
    for name, content in files.items():
        assert MARK.encode() not in content.lower(), name
        assert LEAK.encode() not in content.lower(), name
    assert MARK not in table
    options = {(each['group'], each['name']): each
               for each in json.loads(files['configuration.json'])['options']}
    assert len(options) > 300
    assert options['neutron', 'password']['value'] == '***'
    assert options['vnc', 'novncproxy_port'] == {
        'group': 'vnc', 'name': 'novncproxy_port', 'value': 7,
        'location': str(path)}
    assert options['unknown', 'plain']['value'] == '***'
    assert files['log.txt'].decode().splitlines() == [
        '==> %s/nova-compute.log <==' % tmp_path,
        *(LOG_LINE.strip() % ('nova_prio.compute.usage', message)
          for message in MESSAGES.values())]


def test_compute_host_without_databases(tmp_path, report):
    path = tmp_path / 'nova.conf'
    path.write_text('[DEFAULT]\ncompute_driver = %s\n[libvirt]\n'
                    'connection_uri = nonsense:///\n' % driver_alias.DRIVER)
    rows, files, _ = report(path)
    for name in ('versions', 'contract', 'configuration', 'upgrade-check',
                 'partitions'):
        assert rows.pop(name + '.json') == bundle.OK, rows
    for name in 'audit.json', 'guests.json':
        assert rows.pop(name).startswith('GuestsUnreadable: '), rows
    assert rows.pop('log.txt').endswith(
        'journalctl --lines=1000 --grep=nova_prio.')
    assert set(rows.values()) == {
        '[api_database] connection is not set, as on a compute host; run this '
        'command where nova-manage runs as well.'}
    versions = json.loads(files['versions.json'])
    assert versions['libvirt'].startswith('unknown: ')
    assert 'oslo.config ' in str(versions['packages'])
    assert json.loads(files['partitions.json']).keys() == {
        'problems', 'metrics'}


def test_unreadable_configuration_gets_a_bundle(tmp_path, report):
    path = tmp_path / 'nova.conf'
    path.write_text('[database]\n%s\n' % MARK)
    rows, files, table = report(path)
    assert set(files) == {'index.txt', 'versions.json', 'contract.json'}
    assert rows['audit.json'].startswith(
        "Nova's configuration cannot be read (ConfigFileParseError): run ")
    assert MARK not in str(files) + table


def test_value_that_cannot_be_parsed_is_not_shown(nova_conf, report):
    with nova_conf.open('a') as file:
        file.write('[DEFAULT]\ncompute_driver = %s\n'
                   'cpu_priority_mix_enable = %s\n' % (
                       driver_alias.DRIVER, MARK))
    rows, files, table = report(nova_conf)
    assert {'group': 'DEFAULT', 'name': 'cpu_priority_mix_enable',
            'value': 'not valid', 'location': 'unknown'} in json.loads(
        files['configuration.json'])['options']
    assert 'ConfigFileValueError' in rows['upgrade-check.json']
    assert MARK not in str(files) + table


def test_cloud_without_hosts(nova_conf, report):
    rows, files, _ = report(nova_conf)
    for name in 'capacity', 'aggregates', 'services':
        assert json.loads(files[name + '.json']) == []
    assert json.loads(files['reports.json'])['hosts'] == []
    # Placement is not configured.
    assert rows['disabled-hosts.json'] != bundle.OK
    assert "compute_driver is 'None', not 'prio." in rows['partitions.json']


def test_nova_that_does_not_match_is_reported(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        contract, 'find_mismatches', lambda service: ['x does not exist'])
    output = tmp_path / 'report.tar.gz'
    assert 0 == main.main(['report', '--output', str(output)])
    with tarfile.open(output) as archive:
        name, = [name for name in archive.getnames() if 'contract' in name]
        assert json.load(archive.extractfile(name))['mismatches'][
            contract.COMMANDS] == ['x does not exist']


def test_file_that_cannot_be_written_is_an_error(nova_conf):
    done = run(nova_conf, '--output', '/no/report.tar.gz')
    assert done.returncode == 1
    assert done.stdout == ''
    assert done.stderr == (
        "--output is '/no/report.tar.gz', which cannot be written: No such "
        'file or directory.\n')
