# SPDX-License-Identifier: Apache-2.0

"""All changes that this package makes to Nova at run time.

Nova has entry points for filters, weighers, extra specs and os-vif plug-ins,
but not for the rest. This module replaces these attributes of Nova's modules:

* ``nova.compute.api.API``
* ``nova.api.openstack.compute.servers.ServersController.create``
* ``nova.compute.resource_tracker.ResourceTracker``
* ``nova.compute.resource_tracker.claims``

It also adds a function to
``nova.scheduler.request_filter.ALL_REQUEST_FILTERS``, and
:mod:`nova_prio.virt.os_vif_loader` adds the module ``nova.virt.prio``. The
chapter Design says why. No file of Nova is changed or copied.
"""

import functools
import types

from nova_prio.compat import contract


def register_options():
    """Register the options of this package with Nova's configuration.

    :returns: Nova's ``oslo_config.cfg.ConfigOpts``
    """
    import nova.conf

    from nova_prio import conf
    conf.register_opts(nova.conf.CONF)
    return nova.conf.CONF


def install_api(api_class, check_body):
    """Let nova-api fold flavors, and check images and forced moves.

    A second call changes nothing.

    :param api_class: subclass of Nova's compute API
    :param check_body: function that raises an error if it refuses the body of
        a request to create servers
    """
    conf = register_options()
    from nova.api.openstack.compute import servers
    from nova.compute import api
    if api.API is api_class:
        return
    api.API = api_class
    # API.create does not get the whole body, which Nova passes by its name.
    stock_create = servers.ServersController.create

    @functools.wraps(stock_create)
    def create(*args, **kwargs):
        if conf.nova_prio.enabled:
            check_body(kwargs.get('body'))
        return stock_create(*args, **kwargs)

    servers.ServersController.create = create


def install_request_filter(function):
    """Let nova-scheduler call a function before it asks Placement.

    A second call changes nothing.

    :param function: (context, request spec) -> whether the spec was changed
    :returns: whether the function is new
    :raises nova_prio.compat.contract.StartRefused: if Nova does not match
    """
    contract.check(contract.SCHEDULER)
    from nova.scheduler import request_filter
    is_new = function not in request_filter.ALL_REQUEST_FILTERS
    if is_new:
        request_filter.ALL_REQUEST_FILTERS.append(function)
    return is_new


def install_tracker(tracker_class, claim_class, move_claim_class):
    """Let nova-compute make these trackers and claims.

    Call this before nova-compute has made a tracker.

    :raises nova_prio.compat.contract.StartRefused: if Nova does not match
    """
    register_options()
    contract.check(contract.COMPUTE)
    from nova.compute import claims
    from nova.compute import resource_tracker
    resource_tracker.ResourceTracker = tracker_class
    # Nova's MoveClaim looks itself up by name in its own module, so that
    # module must not change.
    resource_tracker.claims = types.SimpleNamespace(
        Claim=claim_class, MoveClaim=move_claim_class,
        NopClaim=claims.NopClaim)
