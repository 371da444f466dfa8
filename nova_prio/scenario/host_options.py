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

"""Options of their own for the hosts of one process.

Nova keeps one configuration per process, and the process of an embedded
cloud holds many computes.
"""

import contextlib
import contextvars
import functools
import inspect

import fixtures
from oslo_config import cfg

#: Options of the host whose code runs here: (group or None, name) -> value.
_OPTIONS = contextvars.ContextVar('host_options', default=None)


class HostOptionsFixture(fixtures.Fixture):
    """Let each host have options of its own.

    While :func:`use` is entered, its values hide those of the process, for
    the thread that entered it. A compute that starts works in threads of its
    own as well: they see the options in ``starting``.
    """

    def _setUp(self):
        self.starting = None
        get = cfg.ConfigOpts._get

        def get_for_host(conf, name, group=None, namespace=None):
            value = get(conf, name, group, namespace)
            options = _OPTIONS.get() or self.starting
            if not options or namespace is not None:
                return value
            return options.get((getattr(group, 'name', group), name), value)

        self.useFixture(fixtures.MonkeyPatch(
            'oslo_config.cfg.ConfigOpts._get', get_for_host))


@contextlib.contextmanager
def use(options):
    """Let this thread see the options of one host.

    :param options: dict, (group or None, option) -> value
    """
    token = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def run_with(instance, options, guest_xmls=None):
    """Run each method of an object with the options of its host.

    The class of the object becomes a subclass, so that its methods see those
    options in whatever thread Nova calls them.

    :param options: dict, as for :func:`use`
    :param guest_xmls: dict, server id -> str, filled with what a driver
        generates
    """
    stock = instance.__class__

    class OnHost(stock):

        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            if not inspect.ismethod(value):
                return value

            @functools.wraps(value)
            def method(*args, **kwargs):
                with use(options):
                    result = value(*args, **kwargs)
                if name == '_get_guest_xml':
                    guest = kwargs.get('instance') or args[1]
                    guest_xmls[guest.uuid] = result
                return result

            return method

    for attribute in ('__name__', '__qualname__', '__module__', '__doc__'):
        setattr(OnHost, attribute, getattr(stock, attribute))
    instance.__class__ = OnHost
