# SPDX-License-Identifier: Apache-2.0

"""Load the compute driver as nova-compute does, and say which one it is.

Run with the Python of an environment that has Nova and this package, from a
wheel or as an editable install. libvirt itself is not needed: Nova's own
fixture stands in for it.
"""

import os

import os_vif

import nova_prio


def main():
    """Print the driver; whatever keeps it from loading ends the script."""
    # Nova's test code chooses between threads and eventlet when its package
    # is imported, which has to come before all other imports of Nova.
    os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true')
    import nova.tests.functional  # noqa: F401

    from nova.tests.fixtures import libvirt as libvirt_fixture
    from nova import version
    from nova.virt import driver

    driver.CONF([], project='nova', default_config_files=[])
    os_vif.initialize()
    with libvirt_fixture.LibvirtFixture():
        loaded = driver.load_compute_driver(
            None, 'prio.PriorityLibvirtDriver')
    print('Nova %s loaded %s.%s from %s' % (
        version.version_string(), type(loaded).__module__,
        type(loaded).__qualname__, os.path.dirname(nova_prio.__file__)))


if __name__ == '__main__':
    main()
