# SPDX-License-Identifier: Apache-2.0

"""The compute API of nova-api, with the fold of priorities.

:mod:`nova_prio.compat.hooks` replaces Nova's class by this one. If
``[nova_prio] enabled`` is false, each method does what Nova's does.
"""

import functools

from nova.compute import api
import nova.conf
from nova import exception
from nova import policy as nova_policy
from oslo_log import log as logging
from oslo_policy import policy as oslo_policy

from nova_prio.api import fold
from nova_prio.model import flavor_specs
from nova_prio import policies

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class PriorityAPI(api.API):
    """Nova's compute API, which also folds the priority into flavors."""

    @functools.cached_property
    def _enforcer(self):
        """The enforcer of our rules, which may refer to rules of Nova.

        Nova's own enforcer accepts no rules of other packages.
        """
        enforcer = oslo_policy.Enforcer(CONF)
        # Nova's enforcer already logs these.
        enforcer.suppress_default_change_warnings = True
        enforcer.suppress_deprecation_warnings = True
        nova_policy.register_rules(enforcer)
        enforcer.register_defaults(policies.list_rules())
        enforcer.load_rules()
        return enforcer

    def _authorize_hint(self, context, priority):
        rule = policies.get_hint_rule(priority)
        target = nova_policy.default_target(context)
        if not self._enforcer.authorize(rule, target, context):
            # As nova.policy.authorize does.
            LOG.debug('Policy check for %(action)s failed with credentials '
                      '%(credentials)s', {
                          'action': rule,
                          'credentials': context.to_policy_values()})
            raise exception.PolicyNotAuthorized(action=rule)

    def create(self, context, flavor, *args, scheduler_hints=None, **kwargs):
        """Create instances with the folded flavor."""
        if CONF.nova_prio.enabled:
            flavor = fold.fold_for_create(flavor, scheduler_hints)
            if flavor_specs.is_from_hint(flavor.extra_specs):
                self._authorize_hint(
                    context, flavor_specs.get_priority(flavor.extra_specs))
        return super().create(context, flavor, *args,
                              scheduler_hints=scheduler_hints, **kwargs)

    def _validate_and_build_base_options(
            self, context, flavor, boot_meta, *args, **kwargs):
        # Here Nova has read the image of a new instance.
        if CONF.nova_prio.enabled:
            fold.complete_for_image(boot_meta, flavor)
        return super()._validate_and_build_base_options(
            context, flavor, boot_meta, *args, **kwargs)

    @staticmethod
    def _validate_flavor_image_numa_pci(image, flavor, *args, **kwargs):
        # Here Nova has read the image of a rebuild or resize.
        if CONF.nova_prio.enabled:
            fold.check_image(image, flavor)
        super(PriorityAPI, PriorityAPI)._validate_flavor_image_numa_pci(
            image, flavor, *args, **kwargs)

    @staticmethod
    def _check_quota_for_upsize(context, instance, current_flavor, new_flavor,
                                is_bfv, is_revert):
        # API.resize looks up the new flavor itself, and first passes it here.
        if CONF.nova_prio.enabled and not is_revert:
            fold.fold_for_resize(new_flavor, instance)
        super(PriorityAPI, PriorityAPI)._check_quota_for_upsize(
            context, instance, current_flavor, new_flavor, is_bfv, is_revert)

    def live_migrate(self, context, instance, block_migration,
                     disk_over_commit, host_name, force=None, *args,
                     **kwargs):
        """Migrate live; the scheduler checks a host for a priority."""
        if CONF.nova_prio.enabled:
            force = fold.get_force_of_move(instance, force, host_name)
        return super().live_migrate(
            context, instance, block_migration, disk_over_commit, host_name,
            force, *args, **kwargs)

    def evacuate(self, context, instance, host, on_shared_storage,
                 admin_password=None, force=None, *args, **kwargs):
        """Evacuate; the scheduler checks a host for a priority."""
        if CONF.nova_prio.enabled:
            force = fold.get_force_of_move(instance, force, host)
        return super().evacuate(
            context, instance, host, on_shared_storage, admin_password, force,
            *args, **kwargs)
