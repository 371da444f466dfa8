# SPDX-License-Identifier: Apache-2.0

"""The start of this package in nova-scheduler."""

import contextlib
from importlib import metadata

from oslo_log import log as logging

from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.scheduler import request_filter
from nova_prio.scheduler import scheduler_checks

LOG = logging.getLogger(__name__)

# Whether load_plugins first calls start, which checks the configuration.
_load_calls_start = True


@contextlib.contextmanager
def unchecked():
    """Return a context where plug-ins load with any configuration.

    Within it, load_plugins does not call start, which would raise an error. A
    command must not end because nova-scheduler would: it names the problems in
    its answer.
    """
    global _load_calls_start
    _load_calls_start = False
    try:
        yield
    finally:
        _load_calls_start = True


def start():
    """Check the configuration, and install the request filter.

    Log one line with the options in force. A second call only checks again.

    :raises nova_prio.compat.contract.StartRefused: if Nova or its
        configuration does not match
    """
    conf = hooks.register_options()
    problems = scheduler_checks.find_problems(conf)
    if problems:
        raise contract.StartRefused(problems[0])
    # The result is False if an earlier call has installed the filter: do not
    # log the same lines again.
    if hooks.install_request_filter(request_filter.restrict_request):
        LOG.info(
            'nova_prio %(release)s: PriorityFilter is enabled, '
            'weight_classes %(classes)s, priority_weight_multiplier '
            '%(multiplier)s, affinity_domains %(domains)s',
            {'release': contract.get_own_release(),
             'classes': ','.join(conf.filter_scheduler.weight_classes),
             'multiplier': conf.nova_prio.priority_weight_multiplier,
             'domains': ','.join(conf.nova_prio.affinity_domains)})
        for warning in scheduler_checks.find_warnings(conf):
            LOG.warning('nova_prio: %s', warning)


def load_plugins(kind):
    """Return the filters or weighers of all entry points, sorted by name.

    Before that, check the configuration and install the request filter, except
    within :func:`unchecked`.

    Any package may add entry points to the group of this package. The error of
    an entry point that cannot be imported ends nova-scheduler, because
    instances would be misplaced without this filter or weigher.

    :param kind: 'filters' or 'weights'
    :returns: list of classes
    """
    if _load_calls_start:
        start()
    entry_points = metadata.entry_points(group='nova_prio.scheduler.' + kind)
    return [entry_points[name].load() for name in sorted(entry_points.names)]
