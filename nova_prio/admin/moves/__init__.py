# SPDX-License-Identifier: Apache-2.0

"""Run the moves of a plan through Nova's API.

``servers`` reads and moves a server, ``one_move`` follows one move to its end,
and ``execution`` runs all moves of a plan in an allowed order. ``verdicts``
checks a plan with the code of Nova. To drain is to move all instances away
from a host: ``drain`` plans these moves, ``drain_run`` makes moves until none
helps, ``batch`` chooses the next hosts, and ``drain_rows`` lists the moves and
explains which instances are left. ``room_plan`` makes room for new instances.
``services`` disables and enables nova-compute.
"""
