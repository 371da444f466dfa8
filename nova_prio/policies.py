# SPDX-License-Identifier: Apache-2.0

"""Policy rules: who may give an instance a priority with the hint.

A priority that comes with a flavor needs no rule: operators choose who sees
the flavor.
"""

from oslo_policy import policy

from nova_prio.model import capacity

_RULE = 'nova_prio:create:hint:%s'
_OPERATIONS = [{'method': 'POST', 'path': '/servers'}]


def get_hint_rule(priority):
    """Return the name of the rule for the hint with this priority."""
    return _RULE % priority


def list_rules():
    """Return the rules, for the sample generators and for nova-api.

    :returns: list of oslo_policy.policy.DocumentedRuleDefault
    """
    return [
        policy.DocumentedRuleDefault(
            name=get_hint_rule(capacity.HIGH),
            check_str='rule:context_is_admin',
            description="Create a server with scheduler hint "
                        "``priority=high``.",
            operations=_OPERATIONS,
            scope_types=['project']),
        policy.DocumentedRuleDefault(
            name=get_hint_rule(capacity.LOW),
            check_str='rule:project_member_or_admin',
            description="Create a server with scheduler hint "
                        "``priority=low``.",
            operations=_OPERATIONS,
            scope_types=['project']),
    ]
