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

"""Filters and weighers, found by entry point, so that others can add some."""

from stevedore import extension


def load(namespace):
    """Return the classes that are registered in a namespace of entry points.

    :param namespace: name of the entry point group
    :returns: list of classes, ordered by the names of their entry points
    :raises Exception: whatever stops one of them from being imported, since
        a scheduler without it would place instances wrongly
    """
    manager = extension.ExtensionManager(
        namespace, on_load_failure_callback=_raise)
    return [manager[name].plugin for name in sorted(manager.names())]


def _raise(manager, entry_point, error):
    raise error
