# SPDX-License-Identifier: Apache-2.0

"""Configuration of nova-api that priority instances depend on."""

from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions

from nova_prio.placement import authentication

_UNIFIED_LIMITS = 'nova.quota.UnifiedLimitsDriver'
_PCPU, _VCPU = 'class:PCPU', 'class:VCPU'
#: Registered limit -> a text that names the instances that need it.
_LIMITS = {_PCPU: 'high-priority instances',
           _VCPU: 'low-priority and ordinary instances',
           'class:MEMORY_MB': 'all instances'}


def find_warnings(conf):
    """Return the faults that affect quotas, a list of sentences.

    If Nova uses unified limits, ask keystone for the registered limits.
    """
    if conf.quota.driver != _UNIFIED_LIMITS:
        return []
    try:
        # If the password is missing, the context raises an error that is
        # caught below. ValueError is that of _list_registered_limits, if it
        # does not find exactly one service.
        with authentication.report_missing_password():
            registered = _list_registered_limits(conf)
    except (ksa_exceptions.ClientException, sdk_exceptions.SDKException,
            ValueError) as error:
        verb = _choose_verb(conf, _PCPU)
        reason = ' '.join(str(error).split()).rstrip('.')
        return ["[quota] driver is %s: high-priority instances need a "
                "registered limit '%s', without which Nova %s them; register "
                "it in keystone, whose limits cannot be read from this host: "
                "%s." % (_UNIFIED_LIMITS, _PCPU, verb, reason)]
    warnings = []
    for name, affected in _LIMITS.items():
        if name in registered:
            continue
        # High-priority instances use PCPU: without a limit of PCPU, they would
        # evade the limit of VCPU. Any other limit may be missing unless Nova
        # requires it.
        evades_limit = name == _PCPU and _VCPU in registered
        if evades_limit or _is_required(conf, name):
            verb = _choose_verb(conf, name)
            warnings.append(
                "[quota] driver is %s, and keystone has no registered limit "
                "'%s', without which Nova %s %s; register it." % (
                    _UNIFIED_LIMITS, name, verb, affected))
    return warnings


def _choose_verb(conf, name):
    """Return what Nova does to instances without this registered limit.

    :param name: name of the limit, such as 'class:PCPU'
    :returns: 'refuses' or 'does not limit', for a sentence about them
    """
    return 'refuses' if _is_required(conf, name) else 'does not limit'


def _is_required(conf, name):
    """Return whether Nova treats an unregistered limit as zero.

    :param name: name of the limit, such as 'class:PCPU'
    """
    is_listed = name in conf.quota.unified_limits_resource_list
    if conf.quota.unified_limits_resource_strategy == 'require':
        return is_listed
    # With the strategy "ignore", Nova requires all limits but those listed.
    return not is_listed


def _list_registered_limits(conf):
    """Return the set of names of the limits that are registered for Nova.

    Find the service and the region as oslo.limit does.

    :raises ValueError: if not exactly one service matches
    """
    from nova import utils
    # This import registers the options of oslo.limit.
    import oslo_limit.limit  # noqa: F401
    identity = utils.get_sdk_adapter(
        'identity', admin=True, conf_group='oslo_limit')
    options = conf.oslo_limit
    if options.endpoint_id:
        endpoint = identity.get_endpoint(options.endpoint_id)
        service, region = endpoint.service_id, endpoint.region_id
    else:
        # Only oslo.limit 2.6.0 and later search for the service.
        kind = options.get('endpoint_service_type')
        name = options.get('endpoint_service_name')
        services = []
        if kind or name:
            services = list(identity.services(type=kind, name=name))
        if len(services) != 1:
            raise ValueError(
                '[oslo_limit] endpoint_id is not set, and %d services are of '
                'the type %s and the name %s' % (len(services), kind, name))
        service = services[0].id
        region = options.endpoint_region_name
    return {each.resource_name for each in identity.registered_limits(
        service_id=service, region_id=region)}
