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

"""The fold in nova-api: the priority of a new instance, decided once."""

from nova import exception

from nova_prio import policy


def fold_flavor(flavor, hints):
    """Return the flavor that is to be kept with a new instance.

    :param flavor: nova.objects.Flavor that was asked for; never changed
    :param hints: dict of scheduler hints, or None
    :returns: a copy with the priority folded in, or the flavor itself where
        no priority is asked for
    :raises nova.exception.InvalidRequest: where what is asked for
        contradicts itself; nova-api answers 400 with its text
    """
    try:
        extra_specs = policy.fold(flavor.vcpus, flavor.extra_specs, hints)
    except policy.PriorityRefused as error:
        raise exception.InvalidRequest(str(error))
    if extra_specs is None:
        return flavor
    folded = flavor.obj_clone()
    folded.extra_specs = extra_specs
    folded.obj_reset_changes()
    return folded
