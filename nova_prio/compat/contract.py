# SPDX-License-Identifier: Apache-2.0

"""The check that the running Nova has the interfaces of this package.

:mod:`nova_prio.compat.interfaces` lists the names of Nova that each service
relies on. A service checks its names when it starts, and refuses to start if
one of them differs.
"""

import contextlib
import importlib.metadata
import inspect
import re

from oslo_log import log as logging
from oslo_utils import importutils

from nova_prio.compat import interfaces
from nova_prio import conf as prio_conf

LOG = logging.getLogger(__name__)

#: Releases of Nova that this package is tested with.
TESTED_RELEASES = (31, 32, 33, 34)

#: A name of Nova in ``interfaces.NAMES``, and its parameters in parentheses.
_NAME = re.compile(r'([\w.:]+)(?:\(([^)]*)\))?')
_LACKS = '%s has no parameter %r in its place'


class StartRefused(Exception):
    """A service must not start with this Nova or with its configuration.

    The message is one sentence: the value, the error and the remedy.
    """


@contextlib.contextmanager
def exit_if_refused():
    """End the service with one line in its log if its start is refused.

    This is a decorator of functions that Nova calls.

    :raises SystemExit: instead of StartRefused
    """
    try:
        yield
    except StartRefused as error:
        LOG.critical('nova_prio: %s', error)
        raise SystemExit(1)


def compare_name(path, parameters=()):
    """Return how a name in Nova differs from the expected one, or None.

    :param path: "module:name", where the name may have dots
    :param parameters: names that must be among the parameters of a callable,
        in this order; empty if the name need not be callable
    """
    module, _, names = path.partition(':')
    found = importutils.try_import(module)
    for attribute in names.split('.'):
        found = getattr(found, attribute, None)
    name = path.replace(':', '.')
    if found is None:
        return '%s does not exist' % name
    if parameters and not callable(found):
        return '%s is not callable' % name
    accepted = iter(inspect.signature(found).parameters if parameters else ())
    for parameter in parameters:
        # This also skips the parameters before this one.
        if parameter not in accepted:
            return _LACKS % (name, parameter)
    return None


def compare_methods(path):
    """Return how the base of our class, a full name, differs, or None."""
    try:
        ours = importutils.import_class(path)
    except Exception as error:
        return '%s cannot be loaded: %s' % (path, error)
    mismatches = [_compare_method(*methods)
                  for methods in find_extensions(ours)]
    # Two of our classes may extend the same method.
    return '; '.join(dict.fromkeys(filter(None, mismatches))) or None


def find_extensions(ours):
    """Yield our methods that extend a method of Nova by ``super()``.

    :param ours: class of ours that is derived from a class of Nova
    :returns: iterator of (full name of Nova's method, Nova's method or None,
        our function)
    """
    stock_index = [base.__module__.startswith('nova.')
                   for base in ours.__mro__].index(True)
    stock = ours.__mro__[stock_index]
    for base in ours.__mro__[:stock_index]:
        for name, member in vars(base).items():
            # Look at our code below the decorators, for super().NAME.
            function = inspect.unwrap(getattr(member, '__func__', member))
            if inspect.isfunction(function) and {'super', name}.issubset(
                    function.__code__.co_names):
                yield ('%s.%s.%s' % (
                    stock.__module__, stock.__qualname__, name),
                    getattr(stock, name, None), function)


def _compare_method(name, stock, ours):
    """Return how a method of Nova differs from our extension, or None.

    Each parameter of ours must be a parameter of Nova's in the same place. A
    parameter before ``/`` may have another name: Nova passes it by its place.
    After ``*args``, Nova's parameter may be in any later place: ours has only
    the name. If ours has ``*args`` or ``**kwargs``, it forwards all other
    parameters.

    :param name: full name of Nova's method
    :param stock: Nova's method, or None if it does not exist
    """
    if stock is None:
        return '%s does not exist' % name
    remaining = list(inspect.signature(stock).parameters)
    forwards = False
    for parameter in inspect.signature(ours).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            forwards = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and remaining:
            remaining.pop(0)
        elif parameter.name in (remaining if forwards else remaining[:1]):
            remaining.remove(parameter.name)
        else:
            return _LACKS % (name, parameter.name)
    if remaining and not forwards:
        return '%s has a new parameter %r' % (name, remaining[0])
    return None


def list_names(service):
    """Yield the names of Nova that a service relies on.

    In ``NAMES``, the text "nova.a:B c(d) e" stands for nova.a:B.c with the
    parameter d, and nova.a:B.e.

    :returns: iterator of (path, parameters), as :func:`compare_name` takes
        them
    """
    for services, text in interfaces.NAMES.items():
        if service not in services:
            continue
        for name, parameters in _NAME.findall(text):
            if '.' in name:
                # An owner, a module or module:class; its names follow.
                owner = name + ('.' if ':' in name else ':')
            else:
                yield owner + name, re.findall(r'\w+', parameters)


def _find_missing_options(service):
    """Yield a sentence for each option that a service reads and Nova lacks."""
    conf = importutils.import_module('nova.conf').CONF
    for services, text in interfaces.OPTIONS.items():
        for path in text.split():
            group, option = path.split('.')
            if service in services and not prio_conf.is_registered(
                    conf, group, option):
                yield '[%s] %s does not exist' % (group, option)


def find_mismatches(service):
    """Return how the running Nova differs for a service, a list of str."""
    found = [compare_name(*name) for name in list_names(service)]
    found += map(compare_methods, interfaces.EXTENDED.get(service, ()))
    found += _find_missing_options(service)
    return [mismatch for mismatch in found if mismatch]


def get_nova_release():
    """Return the version of the running Nova, such as "34.0.0"."""
    from nova import version
    return version.version_string()


def get_own_release():
    """Return the version of this package, such as "1.0.0"."""
    return importlib.metadata.version('nova-prio')


def is_tested(release):
    """Return whether this package is tested with a release of Nova."""
    return int(release.split('.')[0]) in TESTED_RELEASES


def check(service):
    """Refuse the start of a service if the running Nova does not match.

    :raises StartRefused: if a contract of the service does not hold
    """
    mismatches = '; '.join(find_mismatches(service))
    release = get_nova_release()
    if mismatches:
        raise StartRefused(
            'Nova %s does not match this package in %s: %s. Install a '
            'release of nova-prio that supports it, or take nova-prio out '
            'of the configuration of %s.'
            % (release, service, mismatches, service))
    if not is_tested(release):
        LOG.warning('nova-prio is not tested with Nova %(release)s, only with '
                    '%(tested)s; its interfaces match in %(service)s.',
                    {'release': release, 'service': service,
                     'tested': ', '.join(map(str, TESTED_RELEASES))})
