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

"""What those commands share that read Nova's databases.

They run where nova-manage does: beside a Nova whose ``nova.conf`` names the
databases.
"""

import contextlib
import itertools
import warnings

from osc_lib import exceptions
from oslo_config import cfg

from nova_prio import contract


def add_arguments(parser):
    """Add the options that say where the configuration is."""
    parser.add_argument(
        '--config-file', action='append', default=[], metavar='PATH',
        help='nova.conf to read (repeat the option for several; default: '
        'those that the services of Nova read)')


@contextlib.contextmanager
def nova(parsed_args):
    """Configure Nova; yields an administrator's RequestContext.

    What goes wrong in the databases ends the command with one sentence.
    """
    # Nova takes a second to import, which the help need not wait for, and its
    # libraries warn of what is not the user's to change.
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        from nova import config
        from nova import context
        from nova import objects

    from nova_prio import seams
    from nova_prio import survey
    mismatches = contract.mismatches(contract.COMMANDS)
    if mismatches:
        raise exceptions.CommandError(
            'Nova %s does not match this package: %s. Install a release of '
            'nova-prio that supports it.'
            % (contract.release(), '; '.join(mismatches)))
    seams.register_options()
    files = itertools.chain.from_iterable(
        ('--config-file', path) for path in parsed_args.config_file)
    try:
        config.parse_args(['nova-prio', *files])
        objects.register_all()
        yield context.get_admin_context()
    except (cfg.Error, OSError, UnicodeDecodeError) as error:
        raise exceptions.CommandError(
            'The configuration of Nova cannot be read: %s.'
            % str(error).rstrip('.')) from error
    except survey.DATABASE_ERRORS as error:
        raise exceptions.CommandError(
            "Nova's database cannot be read: %s. Run this where nova-manage "
            'runs, or give its nova.conf with --config-file.'
            % ' '.join(str(error).split())) from error
