# SPDX-License-Identifier: Apache-2.0

"""Scheduler weighers of this package."""

from nova_prio.compat import contract
from nova_prio.scheduler import start


@contract.exit_if_refused()
def all_weighers():
    """Return the weighers for ``[filter_scheduler] weight_classes``."""
    return start.load_plugins('weights')
