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

"""What this package relies on in Nova beyond names: tried, not looked up.

:data:`ALL` lists what Nova does with what this package brings, and what it
does by itself that this package builds on. Each is tried in the running
process, which then has the package loaded: a service tries none of it.
:func:`contracts` are these and those of :mod:`nova_prio.contract` together.
"""

import dataclasses
import typing

from nova_prio import contract
from nova_prio import priority_hosts
from nova_prio import trials


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """Something that Nova does.

    ``trial`` is a function without arguments that returns what Nova does
    instead, or None.
    """

    service: str
    name: str
    trial: typing.Callable

    def mismatch(self):
        """Return what the running Nova does instead, or None."""
        return self.trial()


def contracts():
    """Return a tuple of all Seams, Options and Behaviours."""
    return (*contract.SEAMS, *contract.OPTIONS, *ALL)


def finding(relied_on):
    """Return why something that is relied on does not hold, or None.

    :param relied_on: a ``contract.Seam``, a ``contract.Option`` or a Behaviour
    """
    try:
        return relied_on.mismatch()
    except SystemExit:
        return '%s would refuse to start' % relied_on.service
    except Exception as error:
        return 'it cannot be tried: %s: %s' % (
            type(error).__name__, ' '.join(str(error).split()))


_EXTRA_SPEC = 'hw:cpu_priority'
_SCOPED = tuple('aggregate_instance_extra_specs:%s' % key
                for key in ('other', *priority_hosts.AGGREGATE_KEYS))

ALL = (
    Behaviour(contract.API, 'nova_prio.api can be imported',
              trials.importable('nova_prio.api')),
    Behaviour(contract.API, 'extra specs are validated, with [nova_prio] '
              'enabled = true',
              trials.validators(True, (
                  (_EXTRA_SPEC, 'high'), (_EXTRA_SPEC, 'low'),
                  (_SCOPED[0], 'anything'), (_SCOPED[1], 'False'),
                  (_SCOPED[2], 'true')), (
                  (_EXTRA_SPEC, 'High'), (_EXTRA_SPEC, ''),
                  (_EXTRA_SPEC, 'medium'), (_SCOPED[1], ''),
                  (_SCOPED[2], 'high')))),
    Behaviour(contract.API, 'extra specs are as in stock Nova, with '
              '[nova_prio] enabled = false',
              trials.validators(False, ((_SCOPED[2], 'high'),),
                                ((_EXTRA_SPEC, 'high'),))),
    Behaviour(contract.API, 'nova.compute.api takes the fold', trials.fold),
    Behaviour(contract.API, 'nova.policies lists the rules of the hint',
              trials.policy_rules),
    Behaviour(contract.SCHEDULER, 'nova_prio.scheduler can be imported',
              trials.importable('nova_prio.scheduler')),
    Behaviour(contract.SCHEDULER, 'the PriorityFilter is found beside those '
              'of Nova',
              trials.loadable(
                  'nova.scheduler.filters', 'HostFilterHandler',
                  ['nova.scheduler.filters.all_filters',
                   'nova_prio.scheduler.filters.all_filters'],
                  ('PriorityFilter', 'ComputeFilter'))),
    Behaviour(contract.SCHEDULER, 'the PriorityWeighter is found beside the '
              'weighers of Nova',
              trials.loadable(
                  'nova.scheduler.weights', 'HostWeightHandler',
                  ['nova.scheduler.weights.all_weighers',
                   'nova_prio.scheduler.weights.all_weighers'],
                  ('PriorityWeighter', 'RAMWeigher'))),
    Behaviour(contract.SCHEDULER, 'request filters take the narrowing',
              trials.narrowing),
    Behaviour(contract.SCHEDULER, 'weights beyond one are left as they are',
              trials.weights),
    Behaviour(contract.COMPUTE, 'nova_prio.compute can be imported',
              trials.importable('nova_prio.compute')),
    Behaviour(contract.COMPUTE, "os_vif makes the driver '%s' importable"
              % priority_hosts.DRIVER, trials.os_vif),
    Behaviour(contract.COMPUTE, 'no other driver is found there',
              trials.other_driver),
    Behaviour(contract.COMPUTE, 'the driver is loaded before the resource '
              'tracker is made', trials.driver_before_tracker),
    Behaviour(contract.COMPUTE, 'the resource tracker is that of the driver',
              trials.tracker),
    Behaviour(contract.COMPUTE, 'isolated emulator threads go with dedicated '
              'vCPUs of node 0',
              trials.isolated_emulator_threads('3,7', finds_a_place=True)),
    Behaviour(contract.COMPUTE, 'isolated emulator threads without dedicated '
              'vCPUs on node 0 find no place',
              trials.isolated_emulator_threads('7', finds_a_place=False)),
    Behaviour(contract.COMPUTE, 'PCI devices are allocated that are in the '
              'claims of their tracker', trials.pci_claims),
    Behaviour(contract.COMMANDS, 'nova_prio.audit can be imported',
              trials.importable('nova_prio.audit')),
)
