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

"""High- and low-priority instances on one host, beside an unmodified Nova.

Where to start reading:

* :mod:`nova_prio.capacity`: what a host can sell, and to whom (pure)
* :mod:`nova_prio.policy`: what a flavor and a hint ask for (pure)
* :mod:`nova_prio.contract`, :mod:`nova_prio.seams`: what is relied on in
  Nova, and every place where something is put into it
* :mod:`nova_prio.scheduler.filters.priority_filter`: which host may take it
* :mod:`nova_prio.compute.driver`: what the host reports and the guest gets
"""
