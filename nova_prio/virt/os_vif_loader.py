# SPDX-License-Identifier: Apache-2.0

"""The way into nova-compute: makes ``nova.virt.prio`` importable.

nova-compute loads its driver from below ``nova.virt`` and nowhere else, and
loads the plug-ins of os-vif just before. This plug-in plugs nothing.
"""

import sys

from os_vif import plugin

from nova_prio.virt import driver_alias


class PriorityDriverPlugin(plugin.PluginBase):
    """An os-vif plug-in without VIF types, loaded for its side effect."""

    @classmethod
    def load(cls, plugin_name):
        """Alias the driver's module as ``nova.virt.prio``."""
        sys.modules['nova.virt.prio'] = driver_alias
        return super().load(plugin_name)

    def describe(self):
        """Return that no VIF type is supported."""
        from os_vif.objects import host_info
        return host_info.HostPluginInfo(plugin_name='nova_prio', vif_info=[])

    def plug(self, vif, instance_info):
        """Never called: no VIF type is supported."""
        raise NotImplementedError()

    def unplug(self, vif, instance_info):
        """Never called: no VIF type is supported."""
        raise NotImplementedError()
