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

"""Extra specs of flavors that nova-api accepts, and the way into nova-api.

Loaded through the entry point ``nova.api.extra_spec_validators`` when
nova-api starts.
"""

from nova.api.validation.extra_specs import base
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def register():
    """Return the validators of this package's extra specs.

    What nova-api needs besides is installed here, because Nova swallows an
    error at import, and would then run without the fold. There are no
    validators while ``[nova_prio] enabled`` is false. Nova calls this once in
    each process, and one line says that priorities are in force.

    :returns: list of nova.api.validation.extra_specs.base.ExtraSpecValidator
    :raises SystemExit: if the running Nova does not match, or ``[nova_prio]
        enabled`` is not valid
    """
    from nova_prio.api import fold
    from nova_prio import capacity
    from nova_prio import conf
    from nova_prio import contract
    from nova_prio import policies
    from nova_prio import policy
    from nova_prio import priority_hosts
    from nova_prio import seams
    options = seams.register_options()
    for problem in conf.invalid(options, ['enabled']):
        contract.refuse(problem)
    seams.install_api(
        policies.list_rules, fold.check_body, fold.flavor_to_create,
        fold.flavor_to_resize, fold.fit_to_image, fold.check_image,
        fold.force_of_move)
    if not options.nova_prio.enabled:
        return []
    LOG.info('nova_prio %(release)s: enabled true, the extra spec '
             '%(extra_spec)s and the scheduler hint %(hint)s are in force',
             {'release': contract.own_release(),
              'extra_spec': policy.EXTRA_SPEC, 'hint': policy.HINT})
    return [
        base.ExtraSpecValidator(
            name=policy.EXTRA_SPEC,
            description=(
                'The priority of the instance. With ``high`` its dedicated '
                'vCPUs are pinned; with ``low`` its vCPUs float on the CPUs '
                'that high-priority instances leave idle. Only supported by '
                'the prio.PriorityLibvirtDriver compute driver.'),
            value={
                'type': str,
                'description': 'The priority.',
                'enum': list(capacity.PRIORITIES),
            }),
        *(base.ExtraSpecValidator(
            name='aggregate_instance_extra_specs:%s' % key,
            description=(
                'Whether the instance needs a host aggregate for priority '
                'instances.'),
            value={
                'type': bool,
                'description': 'Whether it does.',
            }) for key in priority_hosts.AGGREGATE_KEYS)]
