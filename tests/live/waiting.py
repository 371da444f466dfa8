# SPDX-License-Identifier: Apache-2.0

"""Wait for states that a live cloud reaches by itself."""

import operator

import tenacity


def soon(check, *args, every, within):
    """Return the result of a check as soon as the result is true.

    :param every: seconds between two checks
    :param within: seconds that it may take
    :raises tenacity.RetryError: if it takes longer
    """
    return tenacity.retry(
        retry=tenacity.retry_if_result(operator.not_),
        stop=tenacity.stop_after_delay(within),
        wait=tenacity.wait_fixed(every))(check)(*args)
