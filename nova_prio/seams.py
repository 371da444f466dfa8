# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Every place where this package puts something of its own into Nova.

Nova is never patched or copied. What is put into it is put there by one of
the ``install_*`` functions below, which take it from their callers and first
hold the running Nova against :mod:`nova_prio.contract`.
"""

import contextvars
import functools
import inspect
import itertools
import types

from nova_prio import contract


def register_options():
    """Register the options of this package with Nova's configuration.

    :returns: Nova's ``oslo_config.cfg.ConfigOpts``
    """
    import nova.conf

    from nova_prio import conf
    conf.register_opts(nova.conf.CONF)
    return nova.conf.CONF


def install_api(list_rules, check_body, flavor_to_create, flavor_to_resize,
                fit_to_image, check_image, force_of_move):
    """Let nova-api pass flavors, images and forced moves through functions.

    It does so while ``[nova_prio] enabled`` is true. Calling it again changes
    nothing, and so does calling it where it is not enabled and Nova does not
    match.

    :param list_rules: () -> list of policy rules
    :param check_body: (body of a request to create servers, which Nova has
        not validated yet), raises
    :param flavor_to_create: (context, flavor, hints) -> flavor
    :param flavor_to_resize: (flavor, instance) -> flavor
    :param fit_to_image: (image, flavor of a new instance), which it may
        change; raises
    :param check_image: (image, flavor), raises
    :param force_of_move: (instance, force, host) -> force
    :raises SystemExit: where Nova does not match, and ``[nova_prio] enabled``
        is true
    """
    conf = register_options()
    if conf.nova_prio.enabled:
        contract.check(contract.API)
    elif contract.mismatches(contract.API):
        return
    from nova.api.openstack.compute import servers
    from nova.compute import api
    if isinstance(api.flavors, _FlavorsOfResize):
        return
    resizing = contextvars.ContextVar('nova_prio_resizing', default=None)

    def create(stock, call):
        call['flavor'] = flavor_to_create(
            call['context'], call['flavor'], call.get('scheduler_hints'))
        return stock()

    def resize(stock, call):
        token = resizing.set(call['instance'])
        try:
            return stock()
        finally:
            resizing.reset(token)

    def build(stock, call):
        fit_to_image(call['boot_meta'], call['flavor'])
        return stock()

    def validate(stock, call):
        check_image(call['image'], call['flavor'])
        return stock()

    def move(host):
        def move_to(stock, call):
            call['force'] = force_of_move(
                call['instance'], call.get('force'), call[host])
            return stock()
        return move_to

    for name, around in (
            ('create', create), ('resize', resize),
            ('evacuate', move('host')), ('live_migrate', move('host_name')),
            # Nova looks at the image of a new instance here for the first
            # time, and at that of a rebuild or resize in the other place.
            ('_validate_and_build_base_options', build),
            ('_validate_flavor_image_numa_pci', validate)):
        stock = inspect.getattr_static(api.API, name)
        wrapped = _around(conf, getattr(api.API, name), around)
        setattr(api.API, name, staticmethod(wrapped)
                if isinstance(stock, staticmethod) else wrapped)
    # Only the controller sees the whole body: API.create gets one of the two
    # dicts of hints. Nova passes the body by its name.
    stock_create = servers.ServersController.create

    @functools.wraps(stock_create)
    def create_servers(*args, **kwargs):
        if conf.nova_prio.enabled:
            check_body(kwargs.get('body'))
        return stock_create(*args, **kwargs)

    servers.ServersController.create = create_servers
    _add_policy_rules(list_rules)
    api.flavors = _FlavorsOfResize(api.flavors, resizing, flavor_to_resize)


def _add_policy_rules(list_rules):
    """Let Nova register our rules with its own: later is not thread-safe."""
    from nova import policies
    from nova import policy
    stock = policies.list_rules
    policies.list_rules = lambda: itertools.chain(stock(), list_rules())
    if policy._ENFORCER:
        policy._ENFORCER.register_defaults(list_rules())


def _around(conf, stock, around):
    """Return a method of Nova with a function of ours around it.

    :param around: (function that calls the method, its arguments by name)
    """
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def method(*args, **kwargs):
        if not conf.nova_prio.enabled:
            return stock(*args, **kwargs)
        call = signature.bind(*args, **kwargs)
        return around(lambda: stock(*call.args, **call.kwargs),
                      call.arguments)

    return method


class _FlavorsOfResize:
    """nova.compute.flavors, as nova.compute.api sees it.

    API.resize looks up the new flavor by itself; what it finds is folded for
    the instance that this very call is about.
    """

    def __init__(self, stock, resizing, flavor_to_resize):
        self._stock = stock

        @functools.wraps(stock.get_flavor_by_flavor_id)
        def get_flavor_by_flavor_id(*args, **kwargs):
            flavor = stock.get_flavor_by_flavor_id(*args, **kwargs)
            instance = resizing.get()
            return flavor_to_resize(flavor, instance) if instance else flavor

        self.get_flavor_by_flavor_id = get_flavor_by_flavor_id

    def __getattr__(self, name):
        return getattr(self._stock, name)


def install_request_filter(function):
    """Let nova-scheduler pass each request through a function.

    It does so before Placement is asked. Calling it again changes nothing.

    :param function: (context, request spec) -> whether it changed the latter
    :returns: whether it does so from now on, and has not before
    :raises SystemExit: where Nova does not match
    """
    contract.check(contract.SCHEDULER)
    from nova.scheduler import request_filter
    is_new = function not in request_filter.ALL_REQUEST_FILTERS
    if is_new:
        request_filter.ALL_REQUEST_FILTERS.append(function)
    return is_new


def install_tracker(tracker_class, claim_class, move_claim_class):
    """Let nova-compute use a resource tracker, before it has made one.

    Calling it again changes nothing.

    :param tracker_class: subclass of Nova's ResourceTracker
    :param claim_class: subclass of Nova's Claim, for the tracker to use
    :param move_claim_class: subclass of Nova's MoveClaim, likewise
    :raises SystemExit: where Nova does not match
    """
    register_options()
    contract.check(contract.COMPUTE)
    from nova.compute import claims
    from nova.compute import resource_tracker
    resource_tracker.ResourceTracker = tracker_class
    # Nova's MoveClaim finds itself by name in its own module, which therefore
    # has to stay as it is.
    resource_tracker.claims = types.SimpleNamespace(
        Claim=claim_class, MoveClaim=move_claim_class,
        NopClaim=claims.NopClaim)
