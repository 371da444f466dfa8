# SPDX-License-Identifier: Apache-2.0

import nova.conf
from nova import context
from nova import exception
import pytest

from nova_prio.api import compute_api
from nova_prio.compat import hooks

ADMIN = ['reader', 'member', 'admin']
MEMBER = ['reader', 'member']


@pytest.fixture
def is_allowed(tmp_path):
    """Return a function: may a user with these roles give the priority?"""
    hooks.register_options()
    path = tmp_path / 'nova.conf'
    path.write_text('[oslo_policy]\npolicy_file = %s\n'
                    % (tmp_path / 'policy.yaml'))
    nova.conf.CONF([], project='nova', default_config_files=[str(path)],
                   default_config_dirs=[])
    # Without the clients of other services.
    api = compute_api.PriorityAPI.__new__(compute_api.PriorityAPI)

    def ask(roles, priority):
        try:
            api._authorize_hint(context.RequestContext(
                user_id='u', project_id='p', roles=roles,
                is_admin='admin' in roles), priority)
        except exception.PolicyNotAuthorized as error:
            assert 'nova_prio:create:hint:' + priority in str(error)
            return False
        return True

    yield ask
    nova.conf.CONF.clear()


@pytest.mark.parametrize('roles, priority, answer', [
    (ADMIN, 'high', True), (MEMBER, 'high', False),
    (ADMIN, 'low', True), (MEMBER, 'low', True)])
def test_defaults_of_the_rules(is_allowed, roles, priority, answer):
    assert answer is is_allowed(roles, priority)


def test_rules_of_the_operator(is_allowed, tmp_path):
    """They may refer to rules of Nova and of the operator."""
    (tmp_path / 'policy.yaml').write_text(
        '{"nova_prio:create:hint:high": "rule:ours or rule:context_is_admin", '
        '"ours": "role:trusted", "nova_prio:create:hint:low": "!"}')
    assert is_allowed(['trusted'], 'high')
    assert is_allowed(ADMIN, 'high')
    assert not is_allowed(MEMBER, 'high')
    assert not is_allowed(ADMIN, 'low')
