# SPDX-License-Identifier: Apache-2.0

"""The cost of the package, side by side with stock Nova."""
