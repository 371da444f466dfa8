# SPDX-License-Identifier: Apache-2.0

"""The tables of the figures in protection.json and their limits."""

from benchmarks import tables

#: Setting of the low partition -> words, in the order of the tables.
SETTINGS = {
    'unprotected': 'no partitions',
    '100': 'weight 100, the default of the kernel',
    '10': 'weight 10',
    '1': 'weight 1',
    'idle': 'idle',
}
#: The setting of nova-prio-host, which must keep the limits.
DEFAULT = 'idle'
#: Minimum CPU time of a high-priority guest, relative to its time alone.
LEAST_SHARE = 0.99
#: Maximum wake-up delay, relative to the delay without other guests.
MOST_WAKE_UP_RATIO = 3
OPERATIONS = {'start': 'start', 'answer': 'answer to the monitor',
              'reboot': 'reboot', 'migrate': 'live migration',
              'stop': 'stop and deletion'}
#: A host with busy shared CPUs, with and without low_emulator_set.
CROWDED = 'shared CPUs busy too'
WITH, WITHOUT = 'with low_emulator_set', 'without low_emulator_set'
#: CPU times of a high-priority guest on a crowded host.
CROWDED_SHARES = {
    'share_meanwhile': 'high-priority guest meanwhile',
    'share_beside_low': 'high-priority guest beside a busy low-priority one'}
#: Maximum seconds that an operation may take longer than on an idle host.
MOST_CROWDED_SECONDS = 5


def allowed_seconds(idle_seconds):
    """Return the maximum seconds of an operation on a busy host."""
    return 2 * idle_seconds + 5


def shares(found):
    """Return the Table of the CPU time of a high-priority guest.

    :param found: dict, as read from protection.json
    """
    solo = found['solo']
    rows = [('alone', '100 %', '%.3g ms' % (solo['wake_up_us']['p99'] / 1e3),
             '')]
    for setting in _settings(found):
        words = SETTINGS[setting]
        share = found[setting]['share'] / solo['share']
        p99 = found[setting]['wake_up_us']['p99']
        verdict = ''
        if setting == DEFAULT:
            verdict = tables.verdict(
                share >= LEAST_SHARE and
                p99 <= MOST_WAKE_UP_RATIO * solo['wake_up_us']['p99'])
        rows.append((words, '%.1f %%' % (100 * share),
                     '%.3g ms' % (p99 / 1e3), verdict))
    return tables.Table(
        ('low-priority guests', 'CPU time of a high-priority one',
         'wake-up delay, p99', 'requirement'), rows)


def operations(found):
    """Return the Table of the operations on a low-priority guest."""
    idle = found['solo']['operations']
    settings = _settings(found)[1:]
    rows = []
    for key, words in OPERATIONS.items():
        allowed = allowed_seconds(idle[key])
        of_default = found[DEFAULT]['operations'].get(key)
        rows.append((
            words, _seconds(idle[key]),
            *(_seconds(found[setting]['operations'].get(key))
              for setting in settings),
            _seconds(allowed), tables.verdict(
                of_default is not None and of_default <= allowed)))
    return tables.Table(
        ('operation', 'idle host', *settings, 'allowed', 'requirement'), rows)


def beside_ordinary(found):
    """Return the Table of operations while the shared CPUs are also busy."""
    return _crowded(found, WITHOUT)


def low_emulator_set(found):
    """Return the Table of operations on such a host with low_emulator_set."""
    return _crowded(found, WITH)


def _crowded(found, name):
    settings = _settings(found)[1:]
    idle = found['solo']['operations']
    of = {setting: found[setting][CROWDED][name] for setting in settings}
    rows = []
    for key, words in OPERATIONS.items():
        allowed = idle[key] + MOST_CROWDED_SECONDS
        of_default = of[DEFAULT].get(key)
        rows.append((
            words, _seconds(idle[key]),
            *(_seconds(of[setting].get(key)) for setting in settings),
            tables.verdict(of_default is not None and of_default <= allowed)))
    for key, words in CROWDED_SHARES.items():
        rows.append((
            words, '',
            *('%.1f %%' % (100 * of[setting][key]) for setting in settings),
            tables.verdict(of[DEFAULT][key] >= LEAST_SHARE)))
    return tables.Table(
        ('operation', 'idle host', *settings, 'requirement'), rows)


def _settings(found):
    """Return the measured settings in the order of the tables."""
    return [setting for setting in SETTINGS if setting in found]


def services(found):
    """Return the Table of the CPU time of the services of the host."""
    return tables.Table(
        ('weight of high-priority guests', 'CPU time of a service beside one'),
        [(key.split()[-1], '%.1f %%' % (100 * figures['service_share']))
         for key, figures in found.items() if 'service_share' in figures])


def _seconds(seconds):
    return 'not done' if seconds is None else '%.2g s' % seconds
