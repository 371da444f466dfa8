# SPDX-License-Identifier: Apache-2.0

"""What nova-compute sees as ``nova.virt.prio``.

The driver is imported when it is asked for, so that other programs that load
os-vif's plug-ins do not import Nova.
"""

#: ``[DEFAULT] compute_driver`` of a priority host.
DRIVER = 'prio.PriorityLibvirtDriver'


def __getattr__(name):
    if name == 'PriorityLibvirtDriver':
        from nova_prio.virt.libvirt import driver
        return driver.PriorityLibvirtDriver
    raise AttributeError('nova.virt.prio has no driver %r' % name)
