# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg
import pytest

from nova_prio import conf


@pytest.mark.parametrize('group', ['DEFAULT', 'compute'])
def test_the_switch_is_read_where_openeuler_put_it(group, tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[%s]\ncpu_priority_mix_enable = true\n' % group)
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    options(['--config-file', str(path)])
    assert options.cpu_priority_mix_enable is True


def test_nothing_is_enabled_by_default():
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    conf.register_opts(options)
    options([])
    assert options.cpu_priority_mix_enable is False
    assert options.nova_prio.enabled is False


def test_all_options_have_help_with_possible_values():
    for _, options in conf.list_opts():
        for option in options:
            assert 'Possible values' in option.help, option.name
