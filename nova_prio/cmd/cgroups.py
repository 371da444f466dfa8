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


"""What nova-prio-host, which knows nothing of Nova, says of this host."""

import contextlib
import io
import json

from nova_prio.cmd import host

CHECK = ('check', '--json')


class NotChecked(Exception):
    """It cannot check the host, said in one sentence."""


def problems(arguments=CHECK):
    """Return what it finds wrong, a list of sentences.

    :param arguments: those of its command line
    :raises NotChecked: where they, or its configuration, are wrong
    """
    found, error = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(found), contextlib.redirect_stderr(
                error):
            host.main(arguments)
    except SystemExit as done:
        # As argparse ends, after its usage.
        raise NotChecked(error.getvalue().splitlines()[-1]) from done
    return json.loads(found.getvalue())
