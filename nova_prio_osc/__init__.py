# SPDX-License-Identifier: Apache-2.0

"""A plug-in of the client ``openstack``: commands for priorities.

The commands use the APIs of Nova, Placement and Keystone. They need neither
Nova nor its configuration and databases. Of ``nova_prio``, this package may
import only ``nova_prio.model``.
"""
