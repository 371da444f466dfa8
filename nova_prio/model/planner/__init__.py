# SPDX-License-Identifier: Apache-2.0

"""Plan moves of instances between hosts; pure functions.

:mod:`plan` is the interface: it drains hosts, makes room for new instances, or
evacuates the guests of a lost host. ``resources`` and ``fleet`` describe hosts
and instances, and ``host_fit`` decides whether an instance fits. ``search``
moves instances, ``fleet_room`` moves guests away to make room, ``greedy``
finds plans with these, and ``arrange`` orders the moves. A plan is a proposal:
Nova's own code decides whether it is possible.

:mod:`gain` calculates how many hosts are enough without and with mix;
``first_fit`` places the instances for it.
"""
