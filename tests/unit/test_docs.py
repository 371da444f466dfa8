# SPDX-License-Identifier: Apache-2.0

"""Tests of the snippets in the documentation, and of the sample files."""

import contextlib
import functools
import inspect
import re
import shlex

import nova.conf.opts
from nova import exception
from oslo_config import cfg
from oslo_config import generator
from oslo_policy import generator as policy_generator
import pytest
import yaml

from nova_prio.admin.audit import finding
from nova_prio.admin.host import plan_format
from nova_prio.cmd import main
from nova_prio.compute import claims
from nova_prio.compute import priority_host
import nova_prio.conf
from nova_prio.model import admission
from nova_prio.model import cpu_capacity
from nova_prio.model import reasons
from nova_prio import policies
from nova_prio.scheduler.filters import priority_filter
from tests import pages

SAMPLES = pages.ROOT / 'etc' / 'nova_prio'
PRIORITY = pages.ROOT / 'doc' / 'source' / 'user' / 'priority.rst'

_LITERAL = re.compile(
    r'``((?:\.ci|constraints|doc|etc|examples|nova_prio|tests|tools)/\S*?)``')


def snippets(language):
    """Return the snippets of the pages in a language, as test parameters."""
    return [pytest.param(text, id=where)
            for text, where in pages.snippets(language)]


def nova_confs():
    """Return the snippets of nova.conf and its files, as test parameters."""
    return snippets('ini') + [
        pytest.param(file.read_text(), id=file.name)
        for file in sorted((SAMPLES / 'services').glob('*.conf'))]


def load(path):
    """Return a ConfigOpts with all options of Nova and of this package.

    :param path: the configuration file to read
    """
    conf = cfg.ConfigOpts()
    for group, opts in [*nova.conf.opts.list_opts(),
                        *nova_prio.conf.list_opts()]:
        for opt in opts:
            # Nova lists several ways to authenticate, which share names.
            with contextlib.suppress(cfg.DuplicateOptError):
                conf.register_opt(
                    opt, group=None if group == 'DEFAULT' else group)
    with contextlib.suppress(cfg.RequiredOptError):
        conf([], project='nova', default_config_files=[str(path)])
    return conf


@pytest.fixture(params=nova_confs())
def path(request, tmp_path):
    """A configuration file with the text of one snippet."""
    path = tmp_path / 'nova.conf'
    path.write_text(request.param)
    return path


def test_options_are_known_and_their_values_valid(path):
    conf = load(path)
    sections = {}
    cfg.ConfigParser(str(path), sections).parse()
    for group, options in sections.items():
        for option in options:
            where = conf if group == 'DEFAULT' else conf[group]
            getattr(where, option)


def test_enabled_filters_are_those_of_nova_and_ours(path):
    found = load(path).filter_scheduler.enabled_filters
    path.write_text('')
    stock = load(path).filter_scheduler.enabled_filters
    assert found in (stock, [*stock, 'PriorityFilter'])


@pytest.mark.parametrize('text', snippets('yaml'))
def test_yaml_is_read(text):
    assert yaml.safe_load(text)


@pytest.mark.parametrize('text', snippets('console'))
def test_commands_name_files_that_exist(text):
    for line in text.splitlines():
        words = shlex.split(line.removeprefix('$ '))
        for word in words:
            # An absolute path is a file on the reader's host.
            if '/' in word and '://' not in word and word[0] != '/':
                assert (pages.ROOT / word).exists(), word


@pytest.mark.parametrize('page', pages.PAGES, ids=lambda page: page.name)
def test_literals_name_files_that_exist(page):
    for name in _LITERAL.findall(page.read_text()):
        assert (pages.ROOT / name).exists(), name


@pytest.mark.parametrize('generate, config, sample', [
    (generator.main, 'nova-prio-config-generator.conf',
     'nova-prio.conf.sample'),
    (functools.partial(policy_generator.generate_sample,
                       conf=cfg.ConfigOpts()),
     'nova-prio-policy-generator.conf', 'nova-prio-policy.yaml.sample'),
])
def test_sample_is_current(generate, config, sample, tmp_path):
    """If this test fails, run ``tools/test genconfig``."""
    written = tmp_path / 'sample'
    generate(['--config-file', str(SAMPLES / config),
              '--output-file', str(written)])
    assert (SAMPLES / sample).read_text() == written.read_text()


def test_each_reason_of_a_refusal_is_explained():
    modules = admission, priority_filter, claims, priority_host
    written = {reason for module in modules
               for reason in re.findall(
                   r"Refusal\(\s*'([\w%]+)'", inspect.getsource(module))}
    used = {reason % row if '%' in reason else reason
            for reason in written for row in cpu_capacity.Rows._fields}
    explained = {}
    for name in re.findall(r'^\.\. refusals:: (\w+)$',
                           (pages.ADMIN / 'refusals.rst').read_text(), re.M):
        explained |= getattr(reasons, name)
    assert used == set(explained) == set(reasons.REASONS)
    assert all(all(reason) for reason in explained.values())


def test_each_part_of_a_plan_is_explained():
    page = (pages.ROOT / 'doc' / 'source' / 'admin' /
            'colocation.rst').read_text()
    parts = {value for name, value in vars(plan_format).items()
             if name.isupper() and isinstance(value, str)}
    assert parts - {plan_format.READY, plan_format.NOT_READY} == set(
        re.findall(r'^``([\w ]+)``$', page, re.M))


def test_each_finding_of_the_audit_is_explained():
    page = (pages.ADMIN / 'audit.rst').read_text()
    assert finding.REMEDIES.keys() == set(
        re.findall(r'^``(\w+)``$', page, re.M))


@pytest.mark.parametrize('asked', [
    '--property hw:cpu_priority=high --hint priority=high',
    '--hint priority=urgent',
    '--property hw:cpu_priority=low --image-property hw_cpu_policy=dedicated',
])
def test_answers_of_the_api_are_quoted(asked, capsys):
    assert 1 == main.main(['flavor', 'compile', *asked.split()])
    answer = capsys.readouterr().err
    assert '   ' + answer in PRIORITY.read_text()


def test_the_answer_of_a_policy_is_quoted():
    rule = policies.get_hint_rule(cpu_capacity.HIGH)
    assert '   %s\n' % exception.PolicyNotAuthorized(action=rule) in (
        PRIORITY.read_text())
