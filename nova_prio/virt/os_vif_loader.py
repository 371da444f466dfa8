# SPDX-License-Identifier: Apache-2.0

"""The plug-in of os-vif that makes ``nova.virt.prio`` importable.

nova-compute imports its driver only from ``nova.virt``, right after it has
loaded the plug-ins of os-vif. This plug-in supports no VIF type.
"""

import sys

from os_vif import plugin

from nova_prio.virt import driver_alias


class PriorityDriverPlugin(plugin.PluginBase):
    """A plug-in whose only purpose is that ``load`` is called."""

    @classmethod
    def load(cls, plugin_name):
        """Make ``nova.virt.prio`` importable, then load as other plug-ins."""
        sys.modules['nova.virt.prio'] = driver_alias
        return super().load(plugin_name)

    def describe(self):
        """Return the HostPluginInfo of a plug-in without VIF types."""
        from os_vif.objects import host_info
        return host_info.HostPluginInfo(plugin_name='nova_prio', vif_info=[])

    def plug(self, vif, instance_info):
        """Refuse: os-vif never plugs a VIF with this plug-in."""
        raise NotImplementedError()

    unplug = plug
