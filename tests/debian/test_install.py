# SPDX-License-Identifier: Apache-2.0

"""The Debian packages beside the Nova of Debian 13."""

import json

import pytest

from tests.debian import chroot
from tests.debian import conftest

#: Environment variable with a Debian 13 that has the services of Nova.
NOVA_BASE = 'NOVA_PRIO_TEST_DEBIAN_NOVA'
SHIPPED = '/usr/share/nova-prio/nova_prio/services/'
DROP_INS = '/etc/nova/nova.conf.d'
START_SECONDS = 240

# Of a cloud that has this host: no message broker, and databases in files.
CLOUD = '''\
[DEFAULT]
transport_url = fake:/
[api_database]
connection = sqlite:////var/lib/nova/api
[database]
connection = sqlite:////var/lib/nova/cell
'''

# In place of a service: the options that it would have, read by Nova's code.
SHOW_OPTIONS = '''\
#!/usr/bin/python3
import sys
from nova import config
import nova.conf
from nova_prio.compat import hooks
config.parse_args(sys.argv, configure_db=False, init_rpc=False)
conf = hooks.register_options()
print(conf.compute_driver, conf.cpu_priority_mix_enable,
      conf.compute.cpu_dedicated_set,
      'PriorityFilter' in conf.filter_scheduler.enabled_filters,
      conf.nova_prio.enabled)
'''


@pytest.fixture(scope='module')
def full_builder(tmp_path_factory):
    """A chroot.Root with what debian/control requires of a build."""
    root = chroot.Root(chroot.find_base(NOVA_BASE),
                       tmp_path_factory.mktemp('full-builder'))
    root.apt('build-dep', '/mnt/source')
    root.apt('install', '--no-install-recommends', 'lintian')
    return root


def build_all(builder, name, *arguments):
    """Build all packages into a directory, as the fixture ``build``."""
    builder.check('/mnt/source/tools/deb', '/mnt/shared/' + name, *arguments)
    return conftest.find_packages(builder.shared / name)


@pytest.fixture(scope='module')
def packages(full_builder):
    """The packages of this checkout: name -> pathlib.Path."""
    return build_all(full_builder, 'now')


@pytest.fixture(scope='module')
def packages_before(full_builder):
    """The packages of the commit before: name -> pathlib.Path."""
    return build_all(full_builder, 'before', 'HEAD~1')


def install(root, packages):
    """Install packages as a user does: ``apt install ./*.deb``."""
    paths = []
    for package in packages.values():
        copy = root.shared / package.name
        copy.write_bytes(package.read_bytes())
        paths.append('/mnt/shared/' + package.name)
    return root.check('apt-get', '-q', '-y', 'install', *paths)


@pytest.fixture(scope='module')
def cloud(packages, tmp_path_factory):
    """A chroot.Root with the packages and the databases of a cloud."""
    root = chroot.Root(chroot.find_base(NOVA_BASE),
                       tmp_path_factory.mktemp('cloud'))
    install(root, packages)
    (root.shared / 'cloud.conf').write_text(CLOUD)
    (root.shared / 'show').write_text(SHOW_OPTIONS)
    (root.shared / 'show').chmod(0o755)
    root.check('sh', '-ec', '''
        install -D /mnt/shared/cloud.conf %s/cloud.conf
        # Debian's unit makes these directories.
        install -d -o nova /run/nova /var/lock/nova
        # One worker is enough.
        sed -i 's/^processes = .*/processes = 1/' /etc/nova/nova-api-uwsgi.ini
        su -s /bin/sh nova -c '
            set -e
            nova-manage api_db sync
            nova-manage cell_v2 map_cell0 --database_connection \
                sqlite:////var/lib/nova/cell0
            nova-manage db sync
            nova-manage cell_v2 create_cell'
        ''' % DROP_INS)
    return root


@pytest.fixture(scope='module')
def configured(cloud):
    """The cloud with the drop-in files of the package."""
    cloud.check('sh', '-ec', 'cp %s*.conf %s' % (SHIPPED, DROP_INS))
    return cloud


def run_unit(root, service, expected):
    """Run a service as its unit does, until its log has a text.

    The service may then stop for want of a Keystone. Return the log.

    :param expected: part of a line of the log
    """
    return root.check('sh', '-c', '''
        log=/var/log/nova/%(service)s.log
        : >$log; chown nova $log
        su -s /bin/sh nova -c '/etc/init.d/%(service)s systemd-start' &
        for second in $(seq %(seconds)d); do
            sleep 1
            ! grep -q '%(expected)s' $log || break
            kill -0 $! 2>/dev/null || break
        done
        # The end of this namespace of processes ends the service.
        cat $log
        ''' % {'service': service, 'expected': expected,
               'seconds': START_SECONDS})


def test_all_packages_have_the_same_bytes_again(packages, full_builder):
    again = build_all(full_builder, 'again')
    assert {'nova-prio-doc', 'nova-prio-host', 'python3-nova-prio'} == set(
        packages)
    for name, path in packages.items():
        assert path.read_bytes() == again[name].read_bytes(), name


def test_lintian_finds_nothing(packages, full_builder):
    full_builder.check('sh', '-ec', 'lintian --allow-root --fail-on '
                       'error,warning /mnt/shared/now/*.changes')


def test_upgrade_check_knows_the_nova_of_debian(cloud):
    # The status is 1, because nothing is configured yet.
    shown = cloud.run('nova-prio-status', 'upgrade', 'check', '--json')
    assert 1 == shown.returncode, shown.stdout
    results = {check['check']: check['result'] for check in
               json.loads(shown.stdout)['checks']}
    assert 0 == results['Release of Nova']


def test_contract_and_worked_example(cloud):
    """The tests run away from the checkout, with the installed package."""
    done = cloud.check(
        'sh', '-ec', 'cd /tmp && python3 -m pytest -q --rootdir=/tmp '
        '--import-mode=importlib -p no:cacheprovider '
        '/mnt/source/tests/contract /mnt/source/tests/example_check.py',
        OS_NOVA_DISABLE_EVENTLET_PATCHING='true')
    assert ' passed' in done
    assert 'skipped' not in done


def test_units_read_the_drop_ins(configured):
    """As the page describes it; the other directories stay in effect."""
    show = ('su -s /bin/sh nova -c "/etc/init.d/nova-compute systemd-start" |'
            ' tail -n 1')
    configured.check('sh', '-ec', '''
        dpkg-divert --quiet --rename --add /usr/bin/nova-compute
        cp /mnt/shared/show /usr/bin/nova-compute''')
    # The unit names nova-compute.conf of Debian, which has a driver.
    shown = configured.check('sh', '-ec', show)
    assert 'libvirt.LibvirtDriver True 0-7 True True\n' == shown
    configured.check('sh', '-ec', r'''
        for service in nova-compute nova-scheduler; do
            file=%s/$service.conf
            echo "DAEMON_ARGS=\"\$DAEMON_ARGS --config-file=$file\"" \
                >>/etc/default/$service
        done
        # Another directory that the unit reads by default.
        mkdir /etc/nova/nova-compute.conf.d
        printf '[nova_prio]\nenabled = false\n' \
            >/etc/nova/nova-compute.conf.d/other.conf''' % DROP_INS)
    shown = configured.check('sh', '-ec', show)
    assert 'prio.PriorityLibvirtDriver True 0-7 True False\n' == shown


def test_scheduler_and_api_log_their_start_lines(configured):
    expected = 'PriorityFilter is enabled'
    assert expected in run_unit(configured, 'nova-scheduler', expected)
    expected = 'enabled true, the extra spec'
    assert expected in run_unit(configured, 'nova-api', expected)


def test_upgrade_and_purge(packages_before, packages, tmp_path):
    """An enabled unit stays enabled, and a purge leaves no file."""
    root = chroot.Root(chroot.find_base(NOVA_BASE), tmp_path)
    places = ('/etc', '/opt', '/srv', '/usr', '/var/lib/nova',
              '/var/lib/systemd')
    before = root.list_files(*places)
    install(root, packages_before)
    root.check('systemctl', 'enable', 'nova-prio-host.service')
    wanted = '/etc/systemd/system/multi-user.target.wants/'
    assert '' == root.check('test', '-L', wanted + 'nova-prio-host.service')
    upgraded = install(root, packages)
    assert 'Unpacking python3-nova-prio' in upgraded
    root.check('test', '-L', wanted + 'nova-prio-host.service')
    # As the command writes them for other options than the default.
    root.check('sh', '-ec', 'echo --low-weight 1 >/etc/nova-prio-host.conf;'
               'nova-prio-host prepare --root /proc/self/root')
    root.check('nova-prio', '--version')
    root.apt('purge', '--autoremove', *packages)
    assert before == root.list_files(*places)
