# SPDX-License-Identifier: Apache-2.0

"""The configuration files of a live cloud.

README.rst has all options of nova_prio for nova-compute, nova-scheduler and
nova-api. Each service reads these options from a file of its own.
"""

import configparser
import io
import pathlib
import re
import shutil
import subprocess
import textwrap

from tests.live import layout as layouts


def write(layout):
    """Write all configuration files of a cloud."""
    for name, sections in _files(layout).items():
        file = layout.etc / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_text(sections))
    # Services do not create these directories.
    for name in 'nova', 'neutron', layout.compute_state, *(
            pathlib.Path(host, 'instances') for host in layout.hosts):
        (layout.state / name).mkdir(parents=True, exist_ok=True)
    for host in layout.hosts:
        layout.drop_ins(host).mkdir(exist_ok=True)
    for service in 'nova', 'neutron':
        shutil.copy(layouts.SAMPLES / service / 'api-paste.ini',
                    layout.etc / service)
    _write_ssh(layout)
    write_priorities(layout)


def write_priorities(layout, is_plain=False, more=()):
    """Write the files with the options of nova_prio.

    :param is_plain: whether to leave out this package, so that Nova runs with
        the same CPU sets but without priorities
    :param more: dict, ``compute``, ``scheduler`` or ``api`` -> text to append
        to the options
    """
    plain = {'compute': plain_compute(), 'scheduler': '', 'api': ''}
    for service, text in plain.items():
        if not is_plain:
            text = readme('nova-' + service)
        file = layout.etc / 'nova' / ('readme-%s.conf' % service)
        file.write_text(text + dict(more).get(service, ''))


def plain_compute():
    """Return the nova.conf of README.rst for nova-compute, but plain Nova."""
    options = configparser.ConfigParser(interpolation=None)
    options.read_string(readme('nova-compute'))
    options['DEFAULT']['compute_driver'] = 'libvirt.LibvirtDriver'
    options.remove_option('DEFAULT', 'cpu_priority_mix_enable')
    text = io.StringIO()
    options.write(text)
    return text.getvalue()


def readme(service):
    """Return the nova.conf of a service from README.rst.

    The numbered step that names the service has a block with these lines.

    :raises ValueError: if there is no such step
    """
    found = re.search(
        r'^\d\. .*\b%s\b.*:\n\n( +)\.\. code-block:: ini\n\n'
        r'((?:\n|\1   .*\n)+)' % service,
        layouts.README.read_text(), re.MULTILINE)
    if not found:
        raise ValueError('README.rst has no configuration of ' + service)
    return textwrap.dedent(found[2])


def _write_ssh(layout):
    """Write the SSH keys and options for cold migrations."""
    directory = layout.etc / 'ssh'
    directory.mkdir(exist_ok=True)
    key = directory / 'key'
    if not key.exists():
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '',
                        '-f', key], check=True)
    for name, lines in {
            'ssh_config': [
                'Port %d' % layouts.SSH_PORT, 'IdentityFile /etc/ssh/key',
                'StrictHostKeyChecking no', 'UserKnownHostsFile /dev/null',
                'LogLevel ERROR'],
            'sshd_config': [
                'Port %d' % layouts.SSH_PORT, 'HostKey /etc/ssh/key',
                'AuthorizedKeysFile /etc/ssh/key.pub', 'StrictModes no',
                'PasswordAuthentication no', 'Subsystem sftp internal-sftp'],
            }.items():
        (directory / name).write_text('\n'.join(lines) + '\n')


def _text(sections):
    return ''.join(
        '[%s]\n%s\n' % (name, ''.join(
            '%s = %s\n' % pair for pair in options.items()))
        for name, options in sections.items())


def _files(layout):
    user = _user(layout)
    token = {'keystone_authtoken': {
        **user, 'www_authenticate_uri': layout.url('identity'),
        'service_token_roles_required': 'true'}}
    files = {
        'keystone/keystone.conf': {
            'database': {'connection': layout.database('keystone')},
            'token': {'provider': 'fernet'},
            'fernet_tokens': {'key_repository': layout.etc / 'fernet'},
            'credential': {'key_repository': layout.etc / 'credential'},
            # This cache works only within one process.
            'cache': {'enabled': 'true', 'backend': 'oslo_cache.dict'}},
        'placement/placement.conf': {
            'placement_database': {
                'connection': layout.database('placement')}, **token},
        'glance/glance-api.conf': _image(layout, token),
        **_network(layout, token),
        'nova/common.conf': _nova(layout, user),
        'nova/nova.conf': {
            'api_database': {'connection': layout.database('nova_api')},
            'database': {'connection': layout.database('nova')}, **token},
    }
    for host in layout.hosts:
        files['nova/%s.conf' % host] = _compute(layout, host)
    return files


def _user(layout):
    return {'auth_type': 'password', 'auth_url': layout.url('identity'),
            'username': 'admin', 'password': layouts.PASSWORD,
            'project_name': 'admin', 'user_domain_id': 'default',
            'project_domain_id': 'default', 'region_name': layouts.REGION}


def _image(layout, token):
    return {
        'DEFAULT': {'enabled_backends': 'files:file'},
        'glance_store': {'default_backend': 'files'},
        'files': {'filesystem_store_datadir': layout.directory / 'images'},
        'os_glance_staging_store': {
            'filesystem_store_datadir': layout.directory / 'staging'},
        'os_glance_tasks_store': {
            'filesystem_store_datadir': layout.directory / 'tasks'},
        'database': {'connection': layout.database('glance')},
        'paste_deploy': {
            'flavor': 'keystone', 'config_file':
                layouts.SAMPLES / 'glance' / 'glance-api-paste.ini'},
        **token}


def _network(layout, token):
    state = layout.state / 'neutron'
    return {
        'neutron/neutron.conf': {
            'DEFAULT': {
                'core_plugin': 'ml2', 'service_plugins': '',
                'auth_strategy': 'keystone',
                'transport_url': layout.transport_url, 'state_path': state,
                'notify_nova_on_port_status_changes': 'false',
                'notify_nova_on_port_data_changes': 'false'},
            'database': {'connection': layout.database('neutron')},
            'oslo_concurrency': {'lock_path': state / 'lock'}, **token},
        'neutron/ml2.ini': {
            'ml2': {'type_drivers': 'local',
                    'project_network_types': 'local',
                    'mechanism_drivers': ''}}}


def _nova(layout, user):
    return {
        'DEFAULT': {
            'my_ip': layouts.ADDRESS, 'transport_url': layout.transport_url,
            'state_path': layout.state / 'nova',
            'report_interval': 10, 'service_down_time': 60},
        'service_user': {'send_service_user_token': 'true', **user},
        'placement': user, 'glance': user, 'neutron': user, 'cinder': user,
        'vnc': {'enabled': 'false'},
        'oslo_concurrency': {
            'lock_path': layout.state / 'nova' / 'lock'},
        'oslo_messaging_rabbit': {'rabbit_quorum_queue': 'false'},
        'conductor': {'workers': 1}, 'scheduler': {'workers': 1},
        # A nova-compute may be of an older release than the other services.
        'upgrade_levels': {'compute': 'auto'},
        # The default quota of 20 cores would refuse before the scheduler.
        'quota': {'instances': -1, 'cores': -1, 'ram': -1}}


def _compute(layout, host):
    state = layout.compute_state
    file = layout.etc / 'nova' / (host + '.conf')
    address = layout.address(host)
    return {
        'DEFAULT': {'host': host, 'state_path': state,
                    'graceful_shutdown_timeout': 2,
                    # Disks of idle guests use no space.
                    'initial_disk_allocation_ratio': 40,
                    # The guests ignore a shutdown signal.
                    'shutdown_timeout': 1},
        'oslo_concurrency': {'lock_path': state / 'lock'},
        'libvirt': {'virt_type': 'qemu', 'cpu_mode': 'none',
                    'images_type': 'qcow2',
                    'live_migration_scheme': 'tcp',
                    'live_migration_inbound_addr': address,
                    'migration_inbound_addr': address},
        # Nova runs as root here and needs no sudo.
        'nova_sys_admin': {
            'helper_command':
                'privsep-helper --config-file %s --config-file %s' % (
                    layout.etc / 'nova' / 'common.conf', file)}}
