# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status upgrade check``."""

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import textwrap

from nova import exception
from oslo_upgradecheck import upgradecheck
import pytest

from nova_prio.admin.audit import guest_audit
from nova_prio.admin import upgrade_checks
from nova_prio.cmd import status
from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.compat import interfaces
from nova_prio.model import cpu_capacity
from nova_prio.virt.libvirt import compute_checks
from nova_prio.virt.libvirt import guest_xml

ROOT = pathlib.Path(__file__).parents[3]
README = ROOT / 'README.rst'
CHECKING = ROOT / 'doc/source/admin/checking.rst'
SUCCESS, WARNING, FAILURE = 0, 1, 2
#: The checks that read Nova's databases.
DATABASE_CHECKS = ['Host aggregates', 'Dedicated CPUs of instances']
OF_CANDIDATES = 'Candidates of a request'
API = {('nova_prio', 'enabled'): True}
SCHEDULER = {
    ('filter_scheduler', 'available_filters'): [
        'nova.scheduler.filters.all_filters',
        'nova_prio.scheduler.filters.all_filters'],
    ('filter_scheduler', 'enabled_filters'): ['PriorityFilter'],
    ('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers',
        'nova_prio.scheduler.weights.all_weighers'],
    ('filter_scheduler', 'cpu_weight_multiplier'): 0.0,
    ('filter_scheduler', 'soft_affinity_weight_multiplier'): 0.0,
    ('filter_scheduler', 'soft_anti_affinity_weight_multiplier'): 0.0,
    ('workarounds', 'disable_fallback_pcpu_query'): True,
}
COMPUTE = {
    (None, 'compute_driver'): 'prio.PriorityLibvirtDriver',
    (None, 'cpu_priority_mix_enable'): True,
    ('compute', 'cpu_dedicated_set'): '0-7',
    ('compute', 'cpu_shared_set'): '8-11',
}


@pytest.fixture
def found(monkeypatch, tmp_path):
    """Return a function that runs all checks with options.

    Its arguments are dicts, (group, name) -> value. It returns a dict, name of
    a check -> upgradecheck.Result.
    """
    conf = hooks.register_options()
    monkeypatch.setattr(
        guest_audit, 'read_guests', lambda conf: (GUEST_HOST, []))
    (tmp_path / 'online').write_text('0-11\n')
    monkeypatch.setattr(compute_checks, 'ONLINE', tmp_path / 'online')
    (tmp_path / 'sys/fs/cgroup').mkdir(parents=True)
    (tmp_path / 'sys/fs/cgroup/cgroup.controllers').write_text('')

    def found(*options):
        checks = status.Checks(
            conf, ['check', '--json', '--root', str(tmp_path)])
        merged = {name: value for each in options
                  for name, value in each.items()}
        try:
            for (group, name), value in merged.items():
                conf.set_override(name, value, group=group)
            return {name: check(checks)
                    for name, check in checks._upgrade_checks}
        finally:
            for group, name in merged:
                conf.clear_override(name, group=group)

    return found


def test_right_configuration_has_no_findings(found):
    results = found(API, SCHEDULER, COMPUTE)
    cgroups = results.pop('Cgroups of the compute host')
    of_databases = [results.pop(name)
                    for name in (*DATABASE_CHECKS, OF_CANDIDATES)]
    assert {SUCCESS} == {result.code for result in results.values()}
    assert {None} == {result.details for result in results.values()}
    assert FAILURE == cgroups.code
    assert 'no hierarchy with the controller cpu' in cgroups.details
    for result in of_databases:
        assert SUCCESS == result.code
        assert '[api_database] connection is not set' in result.details


USE, RELEASE = 'Use of the package', 'Release of Nova'
OF_GUESTS = 'Guests of the compute host'
OF_API, OF_SCHEDULER, OF_COMPUTE = (
    'Configuration of nova-%s' % service
    for service in ('api', 'scheduler', 'compute'))


@pytest.mark.parametrize('options, check, code, expected', [
    ([], USE, WARNING, ['Nothing in this', '--config-file']),
    ([API], OF_COMPUTE, SUCCESS, ['does not set up nova-compute']),
    ([SCHEDULER], OF_API, SUCCESS, ['does not set up nova-api']),
    ([COMPUTE], OF_SCHEDULER, SUCCESS, ['does not set up nova-sched']),
    ([COMPUTE, {(None, 'compute_driver'): 'libvirt.LibvirtDriver'}, API],
     USE, FAILURE, ['cpu_priority_mix_enable', "'prio.PriorityLibvirtDri"]),
    ([COMPUTE, {('nova_prio', 'low_emulator_set'): '7'}], OF_COMPUTE, FAILURE,
     ["[nova_prio] low_emulator_set is '7'", 'cpu_dedicated_set']),
    ([API, {(None, 'compute_driver'): 'prio.PriorityLibvirtDriver # ours'}],
     USE, FAILURE, ['compute_driver is prio', 'a line of its own']),
    ([SCHEDULER, {('filter_scheduler', 'enabled_filters'): [
        'PriorityFilter', 'ComputeFilter # and more']}],
     USE, FAILURE, ['enabled_filters', 'a line of its own']),
    ([API, {('quota', 'driver'): 'nova.quota.UnifiedLimitsDriver'}],
     OF_API, WARNING, ["a registered limit 'class:PCPU', without which Nova "
                       'does not limit them',
                       'from this host: An auth plugin']),
    ([API, {('quota', 'driver'): 'nova.quota.UnifiedLimitsDriver',
            ('quota', 'unified_limits_resource_list'): ['class:PCPU']}],
     OF_API, WARNING, ['without which Nova refuses them']),
    ([SCHEDULER, {('filter_scheduler', 'available_filters'): [
        'nova.scheduler.filters.all_filters']}],
     OF_SCHEDULER, FAILURE, ["add 'nova_prio.scheduler.filters.all_filt"]),
    ([SCHEDULER, {('workarounds', 'disable_fallback_pcpu_query'): False}],
     OF_SCHEDULER, FAILURE, ['disable_fallback_pcpu_query']),
    ([SCHEDULER, {('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers']}],
     OF_SCHEDULER, WARNING, ["without 'nova_prio.scheduler.weights.all_w"]),
    ([SCHEDULER, {('filter_scheduler', 'soft_affinity_weight_multiplier'):
                  1.0}], OF_SCHEDULER, WARNING, ['count twice']),
    # A warning and a failure.
    ([SCHEDULER, {('filter_scheduler', 'soft_affinity_weight_multiplier'):
                  1.0, ('workarounds', 'disable_fallback_pcpu_query'): False}],
     OF_SCHEDULER, FAILURE, ['count twice', 'disable_fallback_pcpu_query']),
    ([COMPUTE, {('compute', 'cpu_shared_set'): '8-12'}],
     OF_COMPUTE, FAILURE, ["cpu_shared_set is '8-12'", 'CPUs 12 are not']),
    ([COMPUTE, {('compute', 'cpu_shared_set'): '7-11'}],
     OF_COMPUTE, FAILURE, ['both hold CPUs 7']),
    ([COMPUTE, {(None, 'ram_allocation_ratio'): 1.5}],
     OF_COMPUTE, WARNING, ['ram_allocation_ratio is 1.5', 'set it to 1.0']),
    ([COMPUTE, {(None, 'ram_allocation_ratio'): 1.5,
                (None, 'cpu_priority_mix_enable'): False}],
     OF_COMPUTE, SUCCESS, None),
    ([COMPUTE, {(None, 'initial_ram_allocation_ratio'): 1.5}],
     OF_COMPUTE, WARNING, ['initial_ram_allocation_ratio is 1.5']),
    ([COMPUTE, {(None, 'initial_ram_allocation_ratio'): 1.5,
                (None, 'ram_allocation_ratio'): 1.0}],
     OF_COMPUTE, SUCCESS, None),
])
def test_check_finds_problem(found, options, check, code, expected):
    result = found(*options)[check]
    assert code == result.code, result.details
    if expected is None:
        assert result.details is None
    else:
        assert all(text in result.details for text in expected), result.details


def test_mismatch_with_nova_is_failure(found, monkeypatch):
    monkeypatch.setattr(
        contract, 'find_mismatches', lambda service:
        ['x does not exist'] if service == interfaces.API else [])
    # Without options, as in a new image, all services are checked.
    for options in [API], []:
        result = found(*options)[RELEASE]
        assert FAILURE == result.code
        assert 'in nova-api: x does not exist; install' in result.details
    # nova-scheduler does not need this interface.
    assert SUCCESS == found(SCHEDULER)[RELEASE].code


def test_mismatch_with_the_commands_is_failure(found, monkeypatch):
    monkeypatch.setattr(
        contract, 'find_mismatches', lambda service:
        ['x does not exist'] if service == interfaces.COMMANDS else [])
    result = found(COMPUTE)[RELEASE]
    assert FAILURE == result.code
    assert 'in nova-prio: x does not exist; install' in result.details


def test_untested_nova_is_warning(found, monkeypatch):
    monkeypatch.setattr(contract, 'get_nova_release', lambda: '35.0.1')
    result = found(API)[RELEASE]
    assert WARNING == result.code
    assert 'Nova 35.0.1, only with 31, 32, 33, 34' in result.details


#: CPU sets as in COMPUTE.
SHARED = frozenset(range(8, 12))
GUEST_HOST = guest_audit.GuestHost(
    cpus=cpu_capacity.HostCPUs(
        frozenset(range(8)), SHARED, ratio=cpu_capacity.parse_ratio(2),
        mix=True),
    cells=[frozenset(range(12))], low_emulator=SHARED)


def make_guest(uuid, cpus, has_cells=True, threads=1):
    """Return a Guest with one vCPU, as read from libvirt.

    :param cpus: CPUs of its vCPU
    :param threads: number of its emulator and I/O threads
    """
    return guest_xml.Guest(
        name='x', uuid=uuid, vcpus=[frozenset(cpus)],
        threads=[SHARED] * threads, has_cells=has_cells)


@pytest.mark.parametrize('release, code, is_named', [
    ('31.0.0', SUCCESS, True), ('32.0.1', SUCCESS, True),
    ('33.0.2', WARNING, True), ('34.0.0', SUCCESS, False)])
def test_guests_that_nova_33_cannot_migrate_are_named(
        found, monkeypatch, release, code, is_named):
    monkeypatch.setattr(contract, 'get_nova_release', lambda: release)
    monkeypatch.setattr(guest_audit, 'read_guests', lambda conf: (GUEST_HOST, [
        make_guest('old', [0]), make_guest('older', [1]),
        make_guest('new', [2], threads=2),
        make_guest('floating', SHARED, has_cells=False)]))
    result = found(COMPUTE)[OF_GUESTS]
    assert code == result.code
    assert ('instances old, older, whose guests' in (
        result.details or '')) == is_named


def test_old_guests_are_named_in_the_order_of_the_remedies(
        found, monkeypatch):
    monkeypatch.setattr(contract, 'get_nova_release', lambda: '33.0.2')
    monkeypatch.setattr(guest_audit, 'read_guests', lambda conf: (GUEST_HOST, [
        make_guest('unthreaded', [0]), make_guest('floating', range(12)),
        make_guest('outside', [20], threads=2),
        make_guest('twin-1', [2], threads=2),
        make_guest('twin-2', [2], threads=2),
        make_guest('right', [3], threads=2)]))
    result = found(COMPUTE)[OF_GUESTS]
    assert WARNING == result.code
    # Each part has the remedy of the audit.
    expected = (
        'pinned to the same CPU: twin-1 (CPUs 2, with twin-2), twin-2 (CPUs 2,'
        ' with twin-1). Migrate the instance',
        'cpu_dedicated_set: outside (CPUs 20). Migrate the instance',
        'stale CPU sets: floating (CPUs 0-11). Reboot the instance hard',
        'the instances unthreaded, floating, whose guests')
    places = [result.details.find(text) for text in expected]
    assert -1 not in places, result.details
    assert sorted(places) == places
    assert 'right' not in result.details


def test_uuids_stay_on_one_line(capsys):
    checks = status.Checks(hooks.register_options())
    uuids = ['%08d-ab%02d-cdef-abcd-fedcba987654' % (number, number)
             for number in range(20)]
    checks._upgrade_checks = [('Guests', lambda _: upgradecheck.Result(
        upgradecheck.Code.WARNING, 'Guests: %s. Reboot.' % ', '.join(uuids)))]
    assert WARNING == checks.check()
    lines = capsys.readouterr().out.splitlines()
    assert all(any(uuid in line for line in lines) for uuid in uuids)
    # The table is as wide as those of the library: 60, and the borders.
    assert max(map(len, lines)) <= 64 + len('Details: ')


def test_guests_that_cannot_be_read_are_a_warning(found, monkeypatch):
    def fail(conf):
        raise guest_audit.GuestsUnreadable('libvirt does not answer: no')

    monkeypatch.setattr(guest_audit, 'read_guests', fail)
    result = found(COMPUTE)[OF_GUESTS]
    assert WARNING == result.code
    assert 'are not checked: libvirt does not answer: no;' in result.details


def test_wrong_cpu_set_does_not_stop_the_other_checks(found, monkeypatch):
    def fail(conf):
        raise exception.Invalid('Invalid range expression')

    monkeypatch.setattr(guest_audit, 'read_guests', fail)
    assert SUCCESS == found(COMPUTE)[OF_GUESTS].code


def test_missing_entry_points_are_failures(found, monkeypatch):
    monkeypatch.setattr(upgrade_checks, 'PLUGIN', 'not there')
    results = found(API, COMPUTE)
    for check, namespace in ((OF_COMPUTE, 'os_vif'),
                             (OF_API, 'nova.api.extra_spec_validators')):
        assert FAILURE == results[check].code
        assert "'not there' of '%s' is missing" % namespace in results[
            check].details


def test_wrong_host_options_are_failure(found, tmp_path):
    (tmp_path / 'etc').mkdir()
    (tmp_path / 'etc/nova-prio-host.conf').write_text('--low-weight 0\n')
    result = found(COMPUTE)['Cgroups of the compute host']
    assert FAILURE == result.code
    assert ("'0' is given; allowed are whole numbers from 1 to 10000" in
            result.details)


def run(*arguments):
    """Run the command; return the CompletedProcess."""
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'nova_prio.cmd.status',
         *arguments], capture_output=True, text=True)


def test_missing_nova_is_one_line():
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c',
         'import sys\nsys.modules["nova"] = None\n'
         'from nova_prio.cmd import status\nsys.exit(status.main())',
         'upgrade', 'check'], capture_output=True, text=True)
    assert (255, '') == (done.returncode, done.stdout)
    line, = done.stderr.splitlines()
    assert 'Nova is not installed beside this nova-prio; install both' in line


def _not_text(path):
    path.write_bytes(b'[DEFAULT]\n# \xff\n')


def _dir_of_no_text(path):
    path.mkdir()
    _not_text(path / 'a.conf')


def _denied(path):
    path.write_text('')
    path.chmod(0)


#: Text of an error -> function that makes a file with the error.
UNREADABLE = {
    'Failed to find some config files: %s': lambda path: None,
    "Is a directory: '%s'": lambda path: path.mkdir(),
    "Failed to parse %s: at %s:1, ": lambda path: path.write_text('x\n'),
    "%s: 'utf-8' codec can't decode byte 0xff": _not_text,
    'Failed to open some config files: %s': _denied,
}


#: The same for --config-dir, whose files oslo.config reads.
UNREADABLE_DIRECTORY = {
    "Failed to read config file directory: %s": lambda path: None,
    "%s/a.conf: 'utf-8' codec can't decode byte 0xff": _dir_of_no_text,
}


@pytest.mark.parametrize('name, text, make', [
    *(('--config-file', *each) for each in UNREADABLE.items()),
    *(('--config-dir', *each) for each in UNREADABLE_DIRECTORY.items())])
@pytest.mark.parametrize('module, command, status', [
    ('status', ['upgrade', 'check'], 255),
    ('main', ['uninstall-check'], 1)])
def test_unreadable_configuration_is_one_line(
        module, command, status, name, text, make, tmp_path):
    path = tmp_path / 'nova.conf'
    make(path)
    option = [name, str(path)]
    as_user = []
    if text.startswith('Failed to open') and os.geteuid() == 0:
        # With these capabilities, the superuser may read any file.
        as_user = ['setpriv', '--bounding-set=-dac_override,-dac_read_search',
                   '--inh-caps=-dac_override,-dac_read_search']
    done = subprocess.run(
        [*as_user, sys.executable, '-W', 'ignore', '-m',
         'nova_prio.cmd.' + module,
         *(option + command if module == 'status' else command + option)],
        capture_output=True, text=True)
    assert (status, '') == (done.returncode, done.stdout), done.stderr
    *others, line = done.stderr.splitlines()
    assert line.startswith('The configuration of Nova cannot be read: ')
    assert text.replace('%s', str(path)) in line
    assert 'Traceback' not in done.stderr
    assert module == 'main' or not others


@pytest.mark.parametrize('option, text', [
    ('priority_weight_multiplier = abc', '[nova_prio] priority_weight_mu'),
    ('soft_affinity_weight_multiplier = -1',
     '[nova_prio] soft_affinity_weight_multiplier: '),
    ('affinity_same_priority = perhaps', '[nova_prio] affinity_same_pri'),
])
def test_values_that_stop_the_scheduler_are_failures(tmp_path, option, text):
    path = tmp_path / 'nova.conf'
    path.write_text('[filter_scheduler]\nenabled_filters = PriorityFilter\n'
                    '[nova_prio]\n%s\n' % option)
    done = run('--config-file', str(path), 'upgrade', 'check', '--json')
    assert FAILURE == done.returncode, done.stderr
    found, = (each for each in json.loads(done.stdout)['checks']
              if OF_SCHEDULER == each['check'])
    assert FAILURE == found['result']
    assert text in found['details']
    assert 'correct the value' in found['details']


def test_validator_of_the_guide_names_unknown_options(tmp_path):
    command, = re.findall(r'^ +# (oslo-config-validator .*)$',
                          CHECKING.read_text(), re.MULTILINE)
    path = tmp_path / 'nova.conf'
    path.write_text(
        '[DEFAULT]\ncpu_prority_mix_enable = true\ndebug = true\n'
        '[compute]\ncpu_priority_mix_enable = true\n'
        '[filter_scheduler]\naffinity_domains = host\n'
        '[nova_prio]\naffinity_domain = host\nenabled = true\n'
        '[nova-prio]\nenabled = true\n')
    program, *arguments, _ = command.split()
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name(program), *arguments, path],
        stderr=subprocess.PIPE, text=True)
    assert 1 == done.returncode
    assert re.findall(r'ERROR:.*:(\S+) is not part of', done.stderr) == [
        'DEFAULT/cpu_prority_mix_enable', 'filter_scheduler/affinity_domains',
        'nova_prio/affinity_domain', 'nova-prio/enabled']


def test_command_line_reports_findings_and_wrong_values(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[nova_prio]\nenabled = true\n')
    done = run('--config-file', str(path), 'upgrade', 'check', '--json')
    assert SUCCESS == done.returncode, done.stderr
    assert {0} == {each['result'] for each in json.loads(
        done.stdout)['checks']}
    options = ''.join(
        textwrap.dedent(block) for _, block in re.findall(
            r'^( *)\.\. code-block:: ini\n((?:\n|\1   .*\n)+)',
            README.read_text(), re.MULTILINE))
    # This machine may have fewer CPUs than the host of README.
    for present, small in ('= 0-7\n', '= 0\n'), ('= 8-11\n', '= 1\n'):
        assert present in options
        options = options.replace(present, small)
    path.write_text(options)
    done = run('--config-file', str(path), 'upgrade', 'check', '--json')
    checks = json.loads(done.stdout)['checks']
    of_services = [each for each in checks if each['check'] not in (
        'Cgroups of the compute host', OF_GUESTS, OF_CANDIDATES,
        *DATABASE_CHECKS)]
    assert {(0, None)} == {(each['result'], each['details'])
                           for each in of_services}
    path.write_text('[nova_prio]\nenabled = maybe\n')
    done = run('--config-file', str(path), 'upgrade', 'check')
    assert (FAILURE, '') == (done.returncode, done.stdout)
    line, = done.stderr.splitlines()
    assert all(word in line for word in ('enabled', str(path), "'maybe'"))


def test_default_files_are_those_of_nova_compute(tmp_path, monkeypatch):
    """The file nova-compute.conf of Debian overrides the driver."""
    monkeypatch.setenv('HOME', str(tmp_path))
    directory = tmp_path / '.nova'
    directory.mkdir()
    (directory / 'nova.conf').write_text(
        '[DEFAULT]\ncompute_driver = prio.PriorityLibvirtDriver\n')
    for text, code in (('', SUCCESS), (
            '[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n', WARNING)):
        (directory / 'nova-compute.conf').write_text(text)
        done = run('upgrade', 'check', '--json')
        result, = (each for each in json.loads(done.stdout)['checks']
                   if each['check'] == 'Use of the package')
        assert code == result['result'], result


def check_databases(path):
    """Run the command; return the results of the checks of the databases.

    Each is a tuple of code and details. The first is about host aggregates.
    """
    done = run('--config-file', str(path), 'upgrade', 'check', '--json')
    assert 'Traceback' not in done.stderr, done.stderr
    found = [each for each in json.loads(done.stdout)['checks']
             if each['check'] in DATABASE_CHECKS]
    assert DATABASE_CHECKS == [each['check'] for each in found]
    return [(each['result'], each['details']) for each in found]


def test_host_aggregates_of_databases(nova_conf, nova_manage, tmp_path):
    (code, details), of_instances = check_databases(nova_conf)
    assert WARNING == code
    assert details.startswith('No host aggregate has the metadata priority_m')
    assert (SUCCESS, None) == of_instances
    nova_manage(
        nova_conf, 'cell_v2', 'create_cell', '--transport-url', 'fake:///',
        '--database_connection', 'sqlite:////%s/none/cell.db' % tmp_path)
    for (code, details), subject in zip(
            check_databases(nova_conf), ('hosts', 'instances')):
        assert WARNING == code
        assert ('does not answer, so its %s are not checked' % subject
                in details)


@pytest.mark.parametrize('options', ['', '[placement]\n'
                                     'auth_type = admin_token\ntoken = t\n'
                                     'endpoint = http://127.0.0.1:1\n'])
def test_aggregates_without_placement_are_warning(nova_conf, options):
    with contextlib.closing(
            sqlite3.connect(nova_conf.with_name('api.db'))) as database:
        database.execute("insert into aggregates (id, uuid, name) "
                         "values (1, 'f00', 'a')")
        database.execute(
            "insert into aggregate_metadata (aggregate_id, key, value) "
            "values (1, 'priority_mix', 'true')")
        database.commit()
    nova_conf.write_text(nova_conf.read_text() + options)
    (code, details), _ = check_databases(nova_conf)
    assert WARNING == code
    assert details.startswith('The aggregates of Placement cannot be compared '
                              'with the host aggregates: '), details
    assert details.endswith('; see [placement] in nova.conf, and run this '
                            'again.'), details


@pytest.mark.parametrize('connection, expected', [
    ('sqlite:////%s/none/api.db', 'unable to open database file; correct'),
    ('sqlite:////%s/empty.db', 'no such table: '),
    ('nonsense', 'Could not parse SQLAlchemy URL'),
    ('oracle+cx_oracle://', "No module named 'cx_Oracle'; correct"),
])
def test_unreadable_database_is_failure(tmp_path, connection, expected):
    path = tmp_path / 'nova.conf'
    path.write_text('[api_database]\nconnection = %s\n'
                    % connection.replace('%s', str(tmp_path)))
    for code, details in check_databases(path):
        assert FAILURE == code
        assert 'The database of [api_database] connection cannot be' in details
        assert expected in details
