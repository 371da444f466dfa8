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
