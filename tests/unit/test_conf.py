# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg
import pytest

from nova_prio import conf


@pytest.mark.parametrize('group', ['DEFAULT', 'compute'])
def test_mix_is_read_from_default_and_compute_group(group, tmp_path):
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


def test_invalid_value_is_reported_with_its_option(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[nova_prio]\npriority_weight_multiplier = many\n')
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    options(['--config-file', str(path)])
    assert [] == conf.find_invalid(options, ['enabled'])
    problem, = conf.find_invalid(options, ['priority_weight_multiplier'])
    assert problem.startswith('[nova_prio] priority_weight_multiplier: ')
    assert problem.endswith('; correct the value.')


def test_all_options_but_switches_have_help_with_possible_values():
    for _, options in conf.list_opts():
        for option in options:
            assert option.help.strip(), option.name
            assert (isinstance(option, cfg.BoolOpt) or
                    'Possible values' in option.help), option.name
