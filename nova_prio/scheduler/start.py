# SPDX-License-Identifier: Apache-2.0

"""The start of this package in nova-scheduler."""

from oslo_log import log as logging
from stevedore import extension

from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.scheduler import config_checks
from nova_prio.scheduler import request_filter

LOG = logging.getLogger(__name__)


def start():
    """Check the configuration, and install the request filter.

    Log one line with the options in force. Calling it again changes nothing.

    :raises nova_prio.compat.contract.StartRefused: if Nova or its
        configuration does not match
    """
    conf = hooks.register_options()
    for problem in config_checks.find_problems(conf):
        raise contract.StartRefused(problem)
    if hooks.install_request_filter(request_filter.restrict_request):
        LOG.info(
            'nova_prio %(release)s: PriorityFilter is enabled, '
            'weight_classes %(classes)s, priority_weight_multiplier '
            '%(multiplier)s, affinity_domains %(domains)s',
            {'release': contract.get_own_release(),
             'classes': ','.join(conf.filter_scheduler.weight_classes),
             'multiplier': conf.nova_prio.priority_weight_multiplier,
             'domains': ','.join(conf.nova_prio.affinity_domains)})
        for warning in config_checks.find_warnings(conf):
            LOG.warning('nova_prio: %s', warning)


def load_plugins(kind):
    """Start, and return the classes of the entry points, sorted by name.

    Any package may add entry points. Raise the error of an entry point that
    cannot be imported: without it, the scheduler would misplace instances.

    :param kind: 'filters' or 'weights'
    """
    def fail(manager, entry_point, error):
        raise error

    start()
    manager = extension.ExtensionManager(
        'nova_prio.scheduler.' + kind, on_load_failure_callback=fail)
    return [manager[name].plugin for name in sorted(manager.names())]
