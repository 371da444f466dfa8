# SPDX-License-Identifier: Apache-2.0

"""Wait for states that a live cloud reaches by itself."""

import operator

import tenacity


def soon(check, *args, every, within):
    """Call a check until its result is true, and return the result.

    :param every: seconds between two calls
    :param within: maximum seconds to wait
    :raises tenacity.RetryError: if the result is not true in time
    """
    return tenacity.retry(
        retry=tenacity.retry_if_result(operator.not_),
        stop=tenacity.stop_after_delay(within),
        wait=tenacity.wait_fixed(every))(check)(*args)
