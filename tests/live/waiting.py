# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
