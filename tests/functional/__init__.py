# SPDX-License-Identifier: Apache-2.0

"""Behaviour on a stock Nova and Placement in one process."""

import gc

# Nova's test code decides between threads and eventlet, and has to be the
# first of Nova's modules that is imported.
import nova_prio.scenario.cloud  # noqa: F401

# With the default thresholds, the garbage collector takes a fifth of the
# processor time of these tests. Modules of Nova never become garbage.
gc.freeze()
gc.set_threshold(10000, 10, 10)
