# SPDX-License-Identifier: Apache-2.0

"""All changes that this package makes to Nova at run time.

Nova has entry points for filters, weighers, extra specs and os-vif plug-ins,
but not for the rest. This module replaces these attributes of Nova's modules:

* ``nova.compute.api.API``: the controllers make an ``API`` by its name.
* ``nova.compute.resource_tracker.ResourceTracker``: ``ComputeManager`` makes
  the tracker by its name.
* ``nova.compute.resource_tracker.claims``: the tracker makes claims by their
  names, and ``nova.compute.claims.MoveClaim`` looks itself up by its name, so
  that ``nova.compute.claims`` must not change.

It also adds a function to
``nova.scheduler.request_filter.ALL_REQUEST_FILTERS``: no option adds a request
filter. :mod:`nova_prio.virt.os_vif_loader` adds the module ``nova.virt.prio``:
``compute_driver`` must name a class below ``nova.virt``. No file of Nova is
changed or copied.
"""

import functools
import types

from nova_prio.compat import contract
from nova_prio.compat import interfaces
from nova_prio import conf as prio_conf


def register_options():
    """Register the options of this package with Nova's configuration.

    :returns: Nova's ``oslo_config.cfg.ConfigOpts``
    """
    # Import Nova only here: a command must be able to import this module, and
    # then report that Nova is missing.
    from nova import conf
    prio_conf.register_opts(conf.CONF)
    return conf.CONF


def install_api(api_class):
    """Replace Nova's compute API, which the controllers of nova-api use.

    :param api_class: subclass of Nova's compute API
    """
    register_options()
    from nova.compute import api
    api.API = api_class


def install_request_filter(function):
    """Let nova-scheduler call a function before it asks Placement.

    A second call changes nothing.

    :param function: takes a context and a nova.objects.RequestSpec, and
        returns whether it changed the RequestSpec
    :returns: whether this call added the function
    :raises nova_prio.compat.contract.StartRefused: if Nova does not match
    """
    contract.check(interfaces.SCHEDULER)
    from nova.scheduler import request_filter
    is_new = function not in request_filter.ALL_REQUEST_FILTERS
    if is_new:
        request_filter.ALL_REQUEST_FILTERS.append(function)
    return is_new


def install_tracker(tracker_class, claim_class, move_claim_class):
    """Let nova-compute make a tracker and claims of these classes.

    Call this before nova-compute makes its tracker. A process that runs
    several computes may have other drivers: they keep Nova's own classes.
    Therefore the replaced names do not stand for our classes, but for a class
    and functions that choose between ours and Nova's.

    :param tracker_class: subclass of Nova's ResourceTracker, for a driver with
        the attribute ``priority_host``, which only our driver has
    :param claim_class: subclass of nova.compute.claims.Claim
    :param move_claim_class: subclass of nova.compute.claims.MoveClaim
    :raises nova_prio.compat.contract.StartRefused: if Nova does not match
    """
    register_options()
    contract.check(interfaces.COMPUTE)
    from nova.compute import claims
    from nova.compute import resource_tracker
    # Find Nova's own tracker among the bases: an earlier call may have
    # replaced the name in Nova's module.
    nova_tracker_class = next(
        base for base in tracker_class.__mro__
        if base.__module__ == resource_tracker.__name__)

    class ResourceTracker(tracker_class):
        """The tracker for a driver."""

        def __new__(cls, host, driver, *args, **kwargs):
            """Return our tracker for our driver, else Nova's own tracker.

            Only our driver has ``priority_host``. Python calls ``__init__`` of
            the result only if it is an instance of this class. Our tracker is
            one. Nova's own tracker is none, and is already complete: the call
            of its class has also called its ``__init__``.
            """
            if hasattr(driver, 'priority_host'):
                return super().__new__(cls)
            return nova_tracker_class(host, driver, *args, **kwargs)

    def make_claim(our_class, nova_class, *args, **kwargs):
        """Return a claim of the class that belongs to the tracker.

        :param our_class: class of claims for our tracker
        :param nova_class: class of claims for Nova's own tracker
        :param args: arguments of the claim; one of them is the tracker
        """
        is_ours = any(isinstance(each, tracker_class) for each in args)
        chosen_class = our_class if is_ours else nova_class
        return chosen_class(*args, **kwargs)

    resource_tracker.ResourceTracker = ResourceTracker
    resource_tracker.claims = types.SimpleNamespace(
        Claim=functools.partial(make_claim, claim_class, claims.Claim),
        MoveClaim=functools.partial(
            make_claim, move_claim_class, claims.MoveClaim),
        NopClaim=claims.NopClaim)
