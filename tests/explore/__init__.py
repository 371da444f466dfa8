# SPDX-License-Identifier: Apache-2.0

"""Operations that are stopped at each of their points, and disturbed there."""

# This import decides between threads and eventlet, so it must be the first.
import nova_prio_scenario.cloud  # noqa: F401
