# SPDX-License-Identifier: Apache-2.0

"""The names of a step in progress lines and reports."""

import pytest

from nova_prio_scenario import schema
from nova_prio_scenario import verbs


@pytest.mark.parametrize('name, keys, title, short_title', [
    ('create', {'name': 's', 'flavor': 'f'}, 'create s (f)', 'create'),
    ('create', {'name': 's', 'count': 3, 'flavor': 'f', 'image': 'i',
                'hint': 'low', 'group': 'g', 'host': 'h'},
     'create s-1 to s-3 (f, image i, hint low, group g, on h)', 'create'),
    ('delete', {'server': 's'}, 'delete s', 'delete'),
    ('resize', {'server': 's', 'flavor': 'f'},
     'resize s to f', 'resize to f'),
    ('resize', {'server': 's', 'flavor': 'f', 'revert': True},
     'resize s to f, and revert it', 'resize to f, and revert it'),
    ('resize', {'server': 's', 'flavor': 'f', 'confirm': False},
     'resize s to f, to be confirmed', 'resize to f, to be confirmed'),
    ('migrate', {'server': 's'}, 'migrate s', 'migrate'),
    ('migrate', {'server': 's', 'host': 'h', 'confirm': False},
     'migrate s to h, to be confirmed', 'migrate to h, to be confirmed'),
    ('migrate', {'server': 's', 'revert': True},
     'migrate s, and revert it', 'migrate, and revert it'),
    ('confirm', {'server': 's'}, 'confirm s', 'confirm'),
    ('revert', {'server': 's'}, 'revert s', 'revert'),
    ('live-migrate', {'server': 's'}, 'live-migrate s', 'live-migrate'),
    ('live-migrate', {'server': 's', 'host': 'h'},
     'live-migrate s to h', 'live-migrate to h'),
    ('evacuate', {'server': 's', 'host': 'h'},
     'evacuate s to h', 'evacuate to h'),
    ('start', {'server': 's'}, 'start s', 'start'),
    ('stop', {'server': 's'}, 'stop s', 'stop'),
    ('reboot', {'server': 's'}, 'reboot s', 'reboot'),
    ('reboot', {'server': 's', 'hard': True},
     'reboot s (hard)', 'reboot (hard)'),
    ('host-drain', {'host': 'h'}, 'host-drain h', 'host-drain'),
    ('host-change', {'host': 'h', 'shared': '0-1', 'ratio': 1.5,
                     'mix': False},
     'host-change h (shared 0-1, ratio 1.5, mix false)', 'host-change'),
    ('host-down', {'host': 'h'}, 'host-down h', 'host-down'),
    ('host-up', {'host': 'h'}, 'host-up h', 'host-up'),
])
def test_titles_of_a_step(name, keys, title, short_title):
    step = verbs.ScenarioStep(name, schema.with_defaults(
        verbs.VERBS[name].properties, keys), None)
    assert (step.title, step.short_title) == (title, short_title)
