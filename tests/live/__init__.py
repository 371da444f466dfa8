# SPDX-License-Identifier: Apache-2.0
"""A cloud of real services on one machine; it has to be started as root."""
