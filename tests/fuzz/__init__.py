# SPDX-License-Identifier: Apache-2.0

"""A differential fuzz: accounting, Placement and guests beside a model."""

# Nova's test code decides between threads and eventlet, and has to be the
# first of Nova's modules that is imported.
import nova_prio_scenario.cloud  # noqa: F401
