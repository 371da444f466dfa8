# SPDX-License-Identifier: Apache-2.0

"""The start of this package in nova-scheduler."""

from oslo_log import log as logging
from stevedore import extension

from nova_prio import contract
from nova_prio.scheduler import checks
from nova_prio.scheduler import narrowing
from nova_prio import seams

LOG = logging.getLogger(__name__)


def start():
    """Check the configuration, and install the request filter.

    Log one line with the options in force. Calling it again changes nothing.

    :raises nova_prio.contract.StartRefused: if Nova or its configuration does
        not match
    """
    conf = seams.register_options()
    for problem in checks.problems(conf):
        raise contract.StartRefused(problem)
    if seams.install_request_filter(narrowing.narrow):
        LOG.info(
            'nova_prio %(release)s: PriorityFilter is enabled, '
            'weight_classes %(classes)s, priority_weight_multiplier '
            '%(multiplier)s, affinity_domains %(domains)s',
            {'release': contract.own_release(),
             'classes': ','.join(conf.filter_scheduler.weight_classes),
             'multiplier': conf.nova_prio.priority_weight_multiplier,
             'domains': ','.join(conf.nova_prio.affinity_domains)})
        for warning in checks.warnings(conf):
            LOG.warning('nova_prio: %s', warning)


def plugins(kind):
    """Start, and return the classes that entry points name, by their names.

    Any package may add entry points. If one cannot be imported, raise its
    error: a scheduler without it would place instances wrongly.

    :param kind: 'filters' or 'weights'
    """
    def fail(manager, entry_point, error):
        raise error

    start()
    manager = extension.ExtensionManager(
        'nova_prio.scheduler.' + kind, on_load_failure_callback=fail)
    return [manager[name].plugin for name in sorted(manager.names())]
