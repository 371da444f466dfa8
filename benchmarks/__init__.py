# SPDX-License-Identifier: Apache-2.0

"""What the package costs, side by side with stock Nova."""
