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

"""What libvirt does with partitions that are not there."""

import os

import pytest


@pytest.mark.parametrize('priority', ['high', 'low'])
def test_a_guest_starts_once_its_partition_is_prepared(
        host, start, idle_image, priority):
    name = '%s_prio_machine.partition' % priority
    partitions = sorted(host.path('/sys/fs/cgroup').rglob(name))
    assert partitions
    # One that is missing is enough, and libvirt then removes the others.
    os.rmdir(partitions[0])
    with pytest.raises(RuntimeError, match='error: Failed to create v. '):
        start(priority, priority, image=idle_image)
    assert not any(partition.exists() for partition in partitions)
    host.prepare()
    guest = start(priority, priority, image=idle_image)
    assert guest.cgroups['cpu'].startswith('/%s/' % name)
