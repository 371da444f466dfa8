# SPDX-License-Identifier: Apache-2.0

"""The contract with Nova: these tests fail first when Nova changes."""
