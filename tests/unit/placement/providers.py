# SPDX-License-Identifier: Apache-2.0

"""Resource providers, and requests to Placement."""

from nova import objects
from nova.scheduler import utils

objects.register_all()


def inventory(total, reserved=0, ratio=1.0, max_unit=None):
    """Return an inventory of Placement."""
    return {'total': total, 'reserved': reserved, 'allocation_ratio': ratio,
            'max_unit': total if max_unit is None else max_unit}


def provider(**values):
    """Return a resource provider, with some values of its own."""
    return {'name': 'a', 'uuid': 'A', 'inventories': {
        'VCPU': inventory(12, 4, 2.0), 'PCPU': inventory(8)},
        'usages': {'VCPU': 12, 'PCPU': 8}, 'traits': [], 'aggregates': [],
        **values}


def request(*groups, root_required=(), root_forbidden=()):
    """Return a ResourceRequest; groups are dicts of RequestGroup fields.

    The first group is the one without a suffix.
    """
    resources = utils.ResourceRequest()
    resources._root_required = set(root_required)
    resources._root_forbidden = set(root_forbidden)
    for number, fields in enumerate(groups):
        group = resources.get_request_group('_%d' % number if number else None)
        for name, value in fields.items():
            setattr(group, name, value)
    return resources
