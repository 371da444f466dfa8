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


"""The commands that read Nova's databases, on those of a bed."""

import contextlib
import io
import json
from unittest import mock

from nova import context

from nova_prio.cmd import main


def run(*arguments, options=('-f', 'json')):
    """Run a command that lists something.

    :param options: what says how, none for a command that lists nothing
    :returns: (exit status, list of dict or None, what it says besides)
    """
    out, err = io.StringIO(), io.StringIO()
    with (mock.patch('nova_prio.cmd.controller.nova',
                     lambda parsed_args: contextlib.nullcontext(
                         context.get_admin_context())),
          contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
        status = main.main([*arguments, *options])
    return status, json.loads(out.getvalue() or 'null'), err.getvalue()
