# SPDX-License-Identifier: Apache-2.0

"""Waits for what a live cloud comes to by itself."""

import operator

import tenacity


def soon(check, *args, every, within):
    """Return what a check returns as soon as that is true.

    :param every: seconds between two checks
    :param within: seconds that it may take
    :raises tenacity.RetryError: if it takes longer
    """
    return tenacity.retry(
        retry=tenacity.retry_if_result(operator.not_),
        stop=tenacity.stop_after_delay(within),
        wait=tenacity.wait_fixed(every))(check)(*args)
