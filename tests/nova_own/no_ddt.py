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

"""Stands in for the module ddt, by which Nova writes some tests as tables.

None of those tests concerns the mixed policy, but modules that hold others
import it. Where it is not installed, the tests that need it are left out.
"""


def ddt(cls):
    """Return a test class as it is."""
    return cls


def data(*values):
    """Mark a test that cannot run."""
    def mark(test):
        test.needs_ddt = True
        return test
    return mark


def unpack(test):
    """Return a test as it is."""
    return test
