# SPDX-License-Identifier: Apache-2.0

"""The hosts and instances of a cloud for the planner of moves.

``cloud_fleet`` reads them, with the conversions of ``fleet_hosts`` and
``fleet_instances``, and ``loss`` calculates the loss of a host.
"""
