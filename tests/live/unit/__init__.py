# SPDX-License-Identifier: Apache-2.0

"""Tests of the test environment itself, without a cloud."""
