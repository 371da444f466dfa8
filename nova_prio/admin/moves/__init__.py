# SPDX-License-Identifier: Apache-2.0

"""Run the moves of a plan through Nova's API.

``order`` decides which moves may start, ``servers`` reads and moves a server,
``one_move`` follows one move to its end, and ``execution`` runs all moves of a
plan. ``drain`` and ``room`` plan again until their goal is reached, with the
plans of ``drain_plan`` and ``room_plan``, which ``verdicts`` checks with the
code of Nova. ``batch`` chooses the next hosts to drain, ``unfinished`` finds
the open migrations, ``remaining`` explains which instances are left, and
``services`` disables and enables nova-compute.
"""
