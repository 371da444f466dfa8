# SPDX-License-Identifier: Apache-2.0

"""The remedies of leftovers."""

import shlex

from nova import objects
import pytest

from nova_prio.admin import uninstall


@pytest.mark.parametrize('name', ['plain', 'two words', 'x; reboot'])
def test_command_for_aggregate_quotes_its_name(name):
    objects.register_all()
    aggregate = objects.Aggregate(name=name, metadata={'priority_mix': 'true'})
    leftover, = uninstall._check_aggregate(aggregate)
    assert name == leftover.name
    command = leftover.remedy.partition('"')[2].removesuffix('".')
    assert shlex.split(command) == [
        'openstack', 'aggregate', 'unset', '--property', 'priority_mix', name]


def test_names_of_groups_are_read_as_oslo_config_reads_them(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[NOVA_PRIO]\nenabled = true\n'
                    '[nova_prio]\nlow_emulator_set = 1\n'
                    '[DEFAULT]\ncpu_priority_mix_enable = true\n')
    assert ['[nova_prio] enabled = true', '[nova_prio] low_emulator_set = 1',
            '[DEFAULT] cpu_priority_mix_enable = true'] == [
        row.content for row in uninstall._check_options([str(path)])]
