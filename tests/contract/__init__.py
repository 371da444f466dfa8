# SPDX-License-Identifier: Apache-2.0

"""What is assumed of Nova: fails first, and by name, when Nova moves."""
