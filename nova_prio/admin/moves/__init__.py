# SPDX-License-Identifier: Apache-2.0

"""Run the moves of a plan through Nova's API.

``order`` decides which moves may start, ``servers`` reads and moves a server,
``one_move`` follows one move to its end, and ``execution`` runs all moves of a
plan.
"""
