# SPDX-License-Identifier: Apache-2.0

"""The compute API of nova-api, which writes priorities into flavors.

:mod:`nova_prio.compat.hooks` replaces Nova's class by this one. If
``[nova_prio] enabled`` is false, each method does what Nova's does.
"""

import contextlib
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


@contextlib.contextmanager
def _log_errors_unless_priority(*flavors, hints=None):
    """Return a context that logs an unexpected error and does not raise it.

    The request of the user then goes on as in stock Nova. If the request has
    a priority, the error is raised.

    :param flavors: nova.objects.Flavor of the instance, now and afterwards
    :param hints: dict of scheduler hints, or None
    """
    try:
        yield
    except exception.NovaException:
        # This is an answer to the user.
        raise
    except Exception:
        if flavor_specs.HINT in (hints or {}):
            raise
        for flavor in flavors:
            if flavor_specs.EXTRA_SPEC in flavor.extra_specs:
                raise
        LOG.exception('nova_prio cannot check a request without a priority. '
                      'Nova continues without this check. Report the error '
                      'with its traceback.')


class PriorityAPI(api.API):
    """Nova's compute API, which also writes the priority into flavors."""

    @functools.cached_property
    def _enforcer(self):
        """The oslo.policy enforcer of the rules of this package and of Nova.

        Nova's own enforcer accepts no rules of other packages, but the rules
        of this package refer to Nova's rules.
        """
        enforcer = oslo_policy.Enforcer(CONF)
        # Nova's enforcer already logs these warnings.
        enforcer.suppress_default_change_warnings = True
        enforcer.suppress_deprecation_warnings = True
        nova_policy.register_rules(enforcer)
        enforcer.register_defaults(policies.list_rules())
        enforcer.load_rules()
        return enforcer

    def _authorize_hint(self, context, priority):
        """Refuse a hint with this priority unless the policy allows it."""
        rule = policies.get_hint_rule(priority)
        target = nova_policy.default_target(context)
        if not self._enforcer.authorize(rule, target, context):
            # nova.policy.authorize logs this line, too.
            LOG.debug('Policy check for %(action)s failed with credentials '
                      '%(credentials)s', {
                          'action': rule,
                          'credentials': context.to_policy_values()})
            raise exception.PolicyNotAuthorized(action=rule)

    def create(self, context, flavor, *args, scheduler_hints=None, **kwargs):
        """Create instances with the priority written (folded) into the flavor.

        The policy decides who may request a priority with the hint. Nova gets
        a copy of the flavor, which it embeds in the instances.
        """
        # An unexpected error fails only a request with a priority. For any
        # other, it is logged, and the flavor is passed on unchanged.
        new_flavor = flavor
        if CONF.nova_prio.enabled:
            with _log_errors_unless_priority(flavor, hints=scheduler_hints):
                new_flavor = fold.fold_for_create(flavor, scheduler_hints)
                # Only a priority from the hint needs a permission. Who may use
                # a flavor may have its priority.
                extra_specs = new_flavor.extra_specs
                if flavor_specs.is_from_hint(extra_specs):
                    priority = flavor_specs.get_priority(extra_specs)
                    self._authorize_hint(context, priority)
        return super().create(context, new_flavor, *args,
                              scheduler_hints=scheduler_hints, **kwargs)

    def _validate_and_build_base_options(
            self, context, flavor, boot_meta, *args, **kwargs):
        """Adapt the flavor of a new instance to its image, in place.

        If the flavor requests PCPU and VCPU, this writes the mixed CPU policy,
        and the image may decide which vCPUs are dedicated. An image that
        contradicts the priority is refused. An unexpected error fails only an
        instance with a priority: for any other, it is logged. The module
        ``fold`` writes what this package adds to flavors.

        This is the first method that gets the image of a new instance.
        """
        if CONF.nova_prio.enabled:
            with _log_errors_unless_priority(flavor):
                fold.complete_for_image(boot_meta, flavor)
        return super()._validate_and_build_base_options(
            context, flavor, boot_meta, *args, **kwargs)

    @staticmethod
    def _validate_flavor_image_numa_pci(image, flavor, *args, **kwargs):
        """Check that the image of a rebuild or resize fits the priority.

        The CPU policy of the image must not contradict the priority that
        nova-api has written (folded) into the flavor. Rebuild and resize both
        pass their image to this method.
        """
        if CONF.nova_prio.enabled:
            with _log_errors_unless_priority(flavor):
                fold.check_image(image, flavor)
        # In a static method, super() needs its arguments.
        super(PriorityAPI, PriorityAPI)._validate_flavor_image_numa_pci(
            image, flavor, *args, **kwargs)

    @staticmethod
    def _check_quota_for_upsize(context, instance, current_flavor, new_flavor,
                                is_bfv, is_revert):
        """Write (fold) the priority into the new flavor of a resize, in place.

        API.resize looks up the new flavor. This is the first method that gets
        the flavor. The flavor to which a revert returns has its priority
        already.

        :param is_bfv: whether the instance was booted from a volume
        """
        if CONF.nova_prio.enabled and not is_revert:
            with _log_errors_unless_priority(current_flavor, new_flavor):
                fold.fold_for_resize(new_flavor, instance)
        # In a static method, super() needs its arguments.
        super(PriorityAPI, PriorityAPI)._check_quota_for_upsize(
            context, instance, current_flavor, new_flavor, is_bfv, is_revert)

    def live_migrate(self, context, instance, block_migration,
                     disk_over_commit, host_name, force=None, *args,
                     **kwargs):
        """Migrate live, but do not force an instance with a priority.

        If ``force`` is true, or is missing and the request names a host, Nova
        would bypass the scheduler. For an instance with a priority, true is
        refused, and such a missing value becomes false. The module ``fold``
        has the rules for priorities.
        """
        if CONF.nova_prio.enabled:
            with _log_errors_unless_priority(instance.flavor):
                force = fold.decide_force(instance, force, host_name)
        return super().live_migrate(
            context, instance, block_migration, disk_over_commit, host_name,
            force, *args, **kwargs)

    def evacuate(self, context, instance, host, on_shared_storage,
                 admin_password=None, force=None, *args, **kwargs):
        """Evacuate, but do not force an instance with a priority.

        If ``force`` is true, or is missing and the request names a host, Nova
        would bypass the scheduler. For an instance with a priority, true is
        refused, and such a missing value becomes false. The module ``fold``
        has the rules for priorities.
        """
        if CONF.nova_prio.enabled:
            with _log_errors_unless_priority(instance.flavor):
                force = fold.decide_force(instance, force, host)
        return super().evacuate(
            context, instance, host, on_shared_storage, admin_password, force,
            *args, **kwargs)
