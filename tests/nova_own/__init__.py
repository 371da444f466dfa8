# SPDX-License-Identifier: Apache-2.0

"""Tests that Nova ships, run with this package loaded."""
