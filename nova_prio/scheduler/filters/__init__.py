# SPDX-License-Identifier: Apache-2.0

"""Scheduler filters of this package."""

from nova_prio.compat import contract
from nova_prio.scheduler import start


@contract.exit_if_refused()
def all_filters():
    """Return the filters for ``[filter_scheduler] available_filters``."""
    return start.load_plugins('filters')
