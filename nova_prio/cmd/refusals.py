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

"""How the commands tell of a flavor that nova-api would refuse."""

import contextlib

from osc_lib import exceptions

from nova_prio import policy


@contextlib.contextmanager
def as_command_errors():
    """End the command with the sentence of what is refused in the context.

    To be entered where Nova is imported anyway, which takes a second.

    :raises osc_lib.exceptions.CommandError: where this package refuses the
        request, or Nova itself, in its words
    """
    from nova import exception
    try:
        yield
    except policy.RequestRefused as error:
        raise exceptions.CommandError(str(error)) from error
    except exception.NovaException as error:
        raise exceptions.CommandError(error.format_message()) from error
