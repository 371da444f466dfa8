# SPDX-License-Identifier: Apache-2.0

"""Options for each host of one process.

Nova has one configuration per process, but the process of an embedded cloud
runs the nova-compute of many hosts. The options of a host are a dict, (name of
the group or None, name of the option) to value.
"""

import contextlib
import contextvars
import functools
import inspect

import fixtures
from oslo_config import cfg

#: Parameter of ``cloud.Cloud.start_host`` to the option that it sets.
NAMES = {
    'driver': (None, 'compute_driver'),
    'ratio': (None, 'cpu_allocation_ratio'),
    'mix': (None, 'cpu_priority_mix_enable'),
    'dedicated': ('compute', 'cpu_dedicated_set'),
    'shared': ('compute', 'cpu_shared_set'),
    'low_emulator_set': ('nova_prio', 'low_emulator_set'),
}
#: Options of the host whose code this thread runs, or None.
_OPTIONS = contextvars.ContextVar('host_options', default=None)


def get_current():
    """Return the options of the host whose code this thread runs, or None."""
    return _OPTIONS.get()


def make_options(**values):
    """Return the options that parameters of ``cloud.Cloud.start_host`` set.

    :param values: dict, parameter to value
    """
    return {NAMES[name]: value for name, value in values.items()}


class HostOptionsFixture(fixtures.Fixture):
    """Lets the options of :func:`use` override the options of the process."""

    def _setUp(self):
        """Replace the function that reads every option."""
        self._starting = None
        get = cfg.ConfigOpts._get

        def get_for_host(conf, name, group=None, namespace=None):
            """Return an option of the host; parameters as of ``_get``."""
            value = get(conf, name, group, namespace)
            options = _OPTIONS.get() or self._starting
            if not options or namespace is not None:
                return value
            # A group is a cfg.OptGroup, its name, or None.
            group_name = getattr(group, 'name', group)
            return options.get((group_name, name), value)

        self.useFixture(fixtures.MonkeyPatch(
            'oslo_config.cfg.ConfigOpts._get', get_for_host))

    @contextlib.contextmanager
    def starting(self, options):
        """Show the options of a host to all threads: its start uses some.

        :param options: dict, see the module
        """
        self._starting = options
        try:
            yield
        finally:
            self._starting = None


@contextlib.contextmanager
def use(options):
    """Show the options of one host to this thread.

    :param options: dict, see the module
    """
    token = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def run_with(manager, options, guest_xmls):
    """Run the driver and the tracker of a host with the options of the host.

    Their classes become subclasses, so that every thread of Nova that calls
    their methods has these options.

    :param manager: nova.compute.manager.ComputeManager
    :param options: dict, see the module
    :param guest_xmls: dict, server id to str, to be filled with the domain
        XML that the driver generates
    """
    for part in manager.driver, manager.rt:
        stock = part.__class__
        subclass = _make_subclass(stock, options, guest_xmls)
        # The subclass has the name and the module of the stock class.
        part.__class__ = functools.update_wrapper(subclass, stock, updated=())


def _make_subclass(stock, options, guest_xmls):
    """Return a subclass whose methods run with the options of a host.

    :param stock: class of the driver or of the tracker
    :param options: dict, see the module
    :param guest_xmls: dict, as of :func:`run_with`
    """
    class OnHost(stock):

        def __getattribute__(self, name):
            """Return an attribute; a method as one that uses the options."""
            value = super().__getattribute__(name)
            if not inspect.ismethod(value):
                return value

            @functools.wraps(value)
            def method(*args, **kwargs):
                """Call the method with the options of the host."""
                with use(options):
                    result = value(*args, **kwargs)
                if name == '_get_guest_xml':
                    # The parameters are context, instance, ...
                    instance = kwargs.get('instance') or args[1]
                    guest_xmls[instance.uuid] = result
                return result

            return method

    return OnHost
