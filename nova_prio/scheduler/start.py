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

"""What happens when nova-scheduler loads this package."""

from oslo_log import log as logging

from nova_prio import contract
from nova_prio.scheduler import checks
from nova_prio.scheduler import narrowing
from nova_prio import seams

LOG = logging.getLogger(__name__)


def start():
    """Check the configuration, and narrow requests from now on.

    One line says what is in force. Calling it again changes nothing.

    :raises SystemExit: where Nova or its configuration does not match
    """
    conf = seams.register_options()
    for problem in checks.problems(conf):
        contract.refuse(problem)
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
