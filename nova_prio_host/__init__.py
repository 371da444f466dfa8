# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-host``, which needs only Python 3.8 or later.

It prepares and checks the cgroups of a host for guests of high and low
priority. All modules import only the standard library, so that the command
also runs on a host without Nova.
"""
