# SPDX-License-Identifier: Apache-2.0

"""Policy rules: who may give an instance a priority with the hint.

A priority from a flavor needs no rule: operators choose who sees the flavor.
"""

from oslo_policy import policy

from nova_prio.model import cpu_capacity


def get_hint_rule(priority):
    """Return the name of the rule for the hint ``priority=PRIORITY``."""
    return 'nova_prio:create:hint:%s' % priority


def list_rules():
    """Return the rules, a list of DocumentedRuleDefault."""
    return [
        policy.DocumentedRuleDefault(
            name=get_hint_rule(priority), check_str=check_str,
            description='Create a server with scheduler hint '
                        '``priority=%s``.' % priority,
            operations=[{'method': 'POST', 'path': '/servers'}],
            scope_types=['project'])
        for priority, check_str in (
            (cpu_capacity.HIGH, 'rule:context_is_admin'),
            (cpu_capacity.LOW, 'rule:project_member_or_admin'))]
