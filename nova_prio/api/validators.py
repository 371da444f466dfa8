# SPDX-License-Identifier: Apache-2.0

"""The extra spec validators, and the start of this package in nova-api.

Nova loads this module through the entry point
``nova.api.extra_spec_validators`` when nova-api starts.
"""

import argparse
import logging as std_logging
import os
import sys

from nova.api.validation.extra_specs import base
from oslo_config import cfg
from oslo_log import log as logging

from nova_prio.compat import contract
from nova_prio.compat import interfaces

LOG = logging.getLogger(__name__)


@contract.exit_if_refused()
def register():
    """Install PriorityAPI, and return the validators of our extra specs.

    PriorityAPI writes priorities into flavors. If ``[nova_prio] enabled`` is
    false, do nothing and return no validators. Nova calls this once in each
    process, but swallows errors at import. Therefore import and install here,
    where an error ends nova-api.

    :raises SystemExit: if the running Nova does not match, or ``[nova_prio]
        enabled`` is not valid
    """
    from nova_prio.compat import hooks
    from nova_prio import conf
    from nova_prio.model import aggregate_metadata
    from nova_prio.model import cpu_capacity
    from nova_prio.model import flavor_specs
    options = hooks.register_options()
    level = std_logging.INFO
    # oslo.config adds this option when Nova reads its configuration files. If
    # Nova has not read them yet, read them here, unless a command of this
    # package has already set ``enabled`` to true.
    if 'config_file' not in options and not options.nova_prio.enabled:
        options = _read_options()
        # Nova sets up its log later. Until then, Python writes warnings, and
        # nothing else, to standard error, which goes to the log of uWSGI.
        level = std_logging.WARNING
    problems = conf.find_invalid(options, ['enabled'])
    if problems:
        raise contract.StartRefused(problems[0])
    if not options.nova_prio.enabled:
        return []
    install_priority_api()
    LOG.log(level, 'nova_prio %(release)s: enabled true, the extra spec '
            '%(extra_spec)s and the scheduler hint %(hint)s are in force',
            {'release': contract.get_own_release(),
             'extra_spec': flavor_specs.EXTRA_SPEC,
             'hint': flavor_specs.HINT})
    validators = [base.ExtraSpecValidator(
        name=flavor_specs.EXTRA_SPEC,
        description=(
            'The priority of the instance. With ``high`` its dedicated '
            'vCPUs are pinned; with ``low`` its vCPUs float on the CPUs '
            'that high-priority instances leave idle. Only supported by '
            'the prio.PriorityLibvirtDriver compute driver.'),
        value={'type': str, 'description': 'The priority.',
               'enum': list(cpu_capacity.PRIORITIES)})]
    for key in aggregate_metadata.AGGREGATE_KEYS:
        validators.append(base.ExtraSpecValidator(
            name='aggregate_instance_extra_specs:%s' % key,
            description='Whether the instance requires a host aggregate for '
                        'priority instances.',
            value={'type': bool, 'description': 'Whether it does.'}))
    return validators


def _read_options():
    """Return the options of this package, before Nova reads its files.

    The program nova-api-wsgi, which Nova has up to release 33, imports the
    API, and with it this module, before it reads the configuration.

    :returns: oslo_config.cfg.ConfigOpts with the options of this package
    """
    from nova.api.openstack import wsgi_app
    from nova_prio import conf
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    files = [path for path in wsgi_app._get_config_files()
             if os.access(path, os.R_OK)]
    # The command line may name other files. Nova knows more options there:
    # ignore them.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in '--config-file', '--config-dir':
        parser.add_argument(name, action='append', default=[])
    named, _ = parser.parse_known_args(sys.argv[1:])
    arguments = ['--config-file=' + path for path in named.config_file]
    arguments += ['--config-dir=' + path for path in named.config_dir]
    options(arguments, project='nova', default_config_files=files)
    return options


def install_priority_api():
    """Let nova-api write the priority of an instance into its flavor.

    Calling this again changes nothing.

    :raises nova_prio.compat.contract.StartRefused: if Nova does not match
    """
    contract.check(interfaces.API)
    # These modules need a Nova that matches.
    from nova_prio.api import compute_api
    from nova_prio.compat import hooks
    hooks.install_api(compute_api.PriorityAPI)
