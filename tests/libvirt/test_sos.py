# SPDX-License-Identifier: Apache-2.0

"""The plug-in of sos, run by the sos of the distribution."""

import os
import pathlib
import subprocess
import sys
import tarfile

PLUGINS = pathlib.Path(__file__).parents[2] / 'etc' / 'sos'
#: The Python of the distribution runs sos, which sets PATH itself.
RUN_SOS = """\
import sys
from sos import policies, SoS
import sos.report.plugins
plugins, path, *arguments = sys.argv[1:]
sos.report.plugins.__path__.append(plugins)
set_path = policies.Policy.set_exec_path

def set_exec_path(policy):
    policy.PATH = path + ':' + policy.PATH
    set_path(policy)

policies.Policy.set_exec_path = set_exec_path
SoS(arguments).execute()
"""
#: A part of each secret, and of no other text.
SECRET = 'pla7nted'
NOVA_CONF = """\
[DEFAULT]
transport_url = rabbit://nova:{secret}@127.0.0.1:1/
[nova_prio]
enabled = true
[api_database]
connection = mysql+pymysql://nova:{secret}@127.0.0.1:1/nova_api
[placement]
auth_type = password
auth_url = http://nova:{secret}@127.0.0.1:1/
username = nova
password = {secret}
"""
#: Prints what a container runtime would. Only old releases of sos use the name
#: in place of the ID, so that both are the same.
PODMAN = """\
#!/bin/sh
[ "$1" = exec ] && echo "amqp://u:{secret}@h in a container: $*"
[ "$1" = ps ] && printf 'ID NAME\\nother other\\nnova_compute nova_compute\\n'
exit 0
"""


def report(tmp_path, programs):
    """Run sos with the plug-in alone.

    :param programs: directory of the programs that sos shall find
    :returns: dict, name of a file of the plug-in -> its text
    """
    done = subprocess.run(
        ['/usr/bin/python3', '-c', RUN_SOS, PLUGINS, programs, 'report',
         '--batch', '--only-plugins', 'nova_prio', '--tmp-dir', tmp_path],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, 'HOME': str(tmp_path), 'PYTHONPATH': ''})
    assert 0 == done.returncode, done.stdout
    path, = tmp_path.glob('sosreport-*.tar.xz')
    with tarfile.open(path) as archive:
        texts = {member.name: archive.extractfile(member).read().decode()
                 for member in archive if member.isfile()}
    assert [] == [name for name in texts if SECRET in texts[name]]
    return {name.rpartition('/')[2]: text for name, text in texts.items()
            if '/sos_commands/nova_prio/' in name}


def test_report_has_no_secret(tmp_path):
    directory = tmp_path / '.nova'
    directory.mkdir()
    # The error of the parser quotes the last line.
    (directory / 'nova.conf').write_text(
        NOVA_CONF.format(secret=SECRET) + 'a line with %s' % SECRET)
    texts = report(tmp_path, pathlib.Path(sys.executable).parent)
    for name in ('nova-prio_capacity_show_-f_json', 'nova-prio_audit_-f_json',
                 'nova-prio-status_upgrade_check_--json'):
        assert 'found in assignment: ***' in texts[name]
    assert 'nova_prio_cgroup_problems' in texts['nova-prio-host_metrics']
    assert 'high_prio_machine' in texts['nova-prio-host_check']


def test_commands_run_in_a_container(tmp_path):
    programs = tmp_path / 'programs'
    programs.mkdir()
    (programs / 'podman').write_text(PODMAN.format(secret=SECRET))
    (programs / 'podman').chmod(0o755)
    texts = report(tmp_path, programs)
    assert texts['nova-prio_audit_-f_json'] == (
        'amqp://***@h in a container: exec nova_compute nova-prio audit '
        '-f json\n')
