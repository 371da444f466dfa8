# SPDX-License-Identifier: Apache-2.0

"""The module that nova-compute imports as ``nova.virt.prio``.

This module imports the driver on the first use. All programs that load the
plug-ins of os-vif import this module, and some of them must not import Nova.
"""

#: ``[DEFAULT] compute_driver`` of a priority host.
DRIVER = 'prio.PriorityLibvirtDriver'


def __getattr__(name):
    """Return the driver, which the first call imports."""
    if name == 'PriorityLibvirtDriver':
        from nova_prio.virt.libvirt import driver
        return driver.PriorityLibvirtDriver
    raise AttributeError('nova.virt.prio has no driver %r' % name)
