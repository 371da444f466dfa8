# SPDX-License-Identifier: Apache-2.0

"""The Debian packages without the documentation, which needs Nova."""

import re
import subprocess

import pytest

from tests.debian import chroot

UNITS = '/usr/lib/systemd/system/'
MODULES = '/usr/lib/python3/dist-packages/'


def list_content(package):
    """Return the paths in a package, a set.

    :param package: pathlib.Path
    """
    listed = subprocess.run(['dpkg-deb', '--contents', package], check=True,
                            capture_output=True, text=True).stdout
    return {line.split(' ./', 1)[1].rstrip('/').join(['/', ''])
            for line in listed.splitlines()}


def read_scripts(package, directory):
    """Return the maintainer scripts of a package: name -> text.

    :param package: pathlib.Path
    :param directory: pathlib.Path, for the scripts
    """
    subprocess.run(['dpkg-deb', '--control', package, directory], check=True)
    return {path.name: path.read_text() for path in directory.iterdir()
            if path.name in ('preinst', 'postinst', 'prerm', 'postrm')}


def test_second_build_has_the_same_bytes(built, build):
    again = build('again')
    assert built.keys() == again.keys()
    for name, path in built.items():
        assert path.read_bytes() == again[name].read_bytes(), name


def test_lintian_finds_nothing(built, builder):
    builder.check('sh', '-ec', 'lintian --allow-root --fail-on '
                  'error,warning /mnt/shared/first/*.changes')


def test_host_package_has_the_command_and_units_only(built):
    content = list_content(built['nova-prio-host'])
    assert {name for name in content
            if re.fullmatch(MODULES + '[^/]+', name)} == {
        MODULES + 'nova_prio_host'}
    assert {name.removeprefix(UNITS) for name in content
            if name.startswith(UNITS)} == {
        'high_prio_machine.slice', 'low_prio_machine.slice',
        'nova-prio-host.service', 'nova-prio-host-metrics.service',
        'nova-prio-host-metrics.timer'}


def test_main_package_has_no_file_outside_usr(built):
    content = list_content(built['python3-nova-prio'])
    assert [] == [name for name in content if not (name + '/').startswith(
        ('//', '/usr/bin/', '/usr/lib/', '/usr/share/')) and name != '/usr']
    for name in ('/usr/bin/nova-prio', '/usr/bin/nova-prio-status',
                 '/usr/share/nova-prio/nova_prio/services/nova-api.conf',
                 MODULES + 'nova_prio/admin/page/page.css',
                 UNITS + 'nova-prio-metrics.timer'):
        assert name in content


@pytest.mark.parametrize('name, timer', [
    ('nova-prio-host', 'nova-prio-host-metrics.timer'),
    ('python3-nova-prio', 'nova-prio-metrics.timer')])
def test_scripts_start_and_stop_only_the_timer(built, name, timer, tmp_path):
    scripts = read_scripts(built[name], tmp_path / 'control')
    assert {'postinst', 'prerm'} <= scripts.keys()
    for script, text in scripts.items():
        assert not re.search(r'systemctl.* (?:re)?start|systemctl.* stop|'
                             r'invoke-rc.d', text)
        # The helper starts no unit that is not enabled.
        actions = re.findall('^.*deb-systemd-invoke (.*) >', text, re.M)
        expected = {'postinst': ["$_dh_action '%s'" % timer],
                    'prerm': ["stop '%s'" % timer]}
        assert expected.get(script, []) == actions, script
    # An upgrade stops nothing.
    assert '"$1" = remove ]' in scripts['prerm']


def test_host_package_prepares_an_image_and_leaves_nothing(
        built, tmp_path):
    root = chroot.Root(chroot.find_base('NOVA_PRIO_TEST_DEBIAN'), tmp_path)
    before = root.list_files('/etc', '/usr/lib/python3')
    (root.shared / 'host.deb').write_bytes(
        built['nova-prio-host'].read_bytes())
    root.apt('install', '--no-install-recommends', '/mnt/shared/host.deb')
    root.check('mkdir', '-p', '/etc/systemd/system')
    # The slices of the package are right for the default options.
    prepare = ('nova-prio-host', 'prepare', '--root', '/proc/self/root')
    assert '' == root.check(*prepare)
    root.check('sh', '-c', 'echo --low-weight 1 >/etc/nova-prio-host.conf')
    assert 'wrote' in root.check(*prepare)
    root.apt('purge', 'nova-prio-host')
    assert before == root.list_files('/etc', '/usr/lib/python3')


def test_purge_keeps_the_files_of_another_installation(built, tmp_path):
    scripts = read_scripts(built['nova-prio-host'], tmp_path / 'control')
    (tmp_path / 'root').mkdir()
    root = chroot.Root(chroot.find_base('NOVA_PRIO_TEST_DEBIAN'),
                       tmp_path / 'root')
    (root.shared / 'postrm').write_text(scripts['postrm'])
    root.check('sh', '-ec', '''
        echo --low-weight 1 >/etc/nova-prio-host.conf
        install /bin/true /usr/bin/nova-prio-host
        sh /mnt/shared/postrm purge
        test -e /etc/nova-prio-host.conf
        rm /usr/bin/nova-prio-host
        sh /mnt/shared/postrm purge
        test ! -e /etc/nova-prio-host.conf''')
