# SPDX-License-Identifier: Apache-2.0

"""Tests of the package in a stock Nova and Placement in one process."""

import gc

# Nova's test code decides between threads and eventlet, so it must be the
# first import of Nova.
import nova_prio_scenario.cloud  # noqa: F401

# With the default thresholds, garbage collection takes a fifth of the
# processor time of these tests. Modules of Nova never become garbage.
gc.freeze()
gc.set_threshold(10000, 10, 10)
