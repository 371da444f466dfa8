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
_NAME = r'([\w.:]+)(?:\(([^)]*)\))?'
_LACKS = '%s has no parameter %r in its place'


class StartRefused(Exception):
    """A service must not start with this Nova or with its configuration.

    The message is one sentence: the value, the error and the remedy.
    """


@contextlib.contextmanager
def exit_if_refused():
    """End the service with one line in its log if its start is refused.

    This is a decorator of functions that Nova calls when a service starts.

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
    module, names = path.split(':')
    found = importutils.try_import(module)
    for attribute in names.split('.'):
        found = getattr(found, attribute, None)
    name = path.replace(':', '.')
    if found is None:
        return '%s does not exist' % name
    if not parameters:
        return None
    if not callable(found):
        return '%s is not callable' % name
    remaining = list(inspect.signature(found).parameters)
    for parameter in parameters:
        if parameter not in remaining:
            return _LACKS % (name, parameter)
        # The next parameter must come after this one: look only there.
        remaining = remaining[remaining.index(parameter):]
    return None


def compare_methods(path):
    """Return how methods of Nova differ from those of our class, or None.

    Compare each method of our class that extends a method of Nova. The result
    is a text with one sentence for each method that differs.

    :param path: full name of our class, such as "nova_prio.module.Class"
    """
    try:
        our_class = importutils.import_class(path)
    except Exception as error:
        return '%s cannot be loaded: %s' % (path, error)
    mismatches = []
    for name, nova_method, our_method in find_extensions(our_class):
        mismatch = _compare_method(name, nova_method, our_method)
        # Two bases of our class may extend the same method of Nova: report it
        # once.
        if mismatch and mismatch not in mismatches:
            mismatches.append(mismatch)
    return '; '.join(mismatches) or None


def find_extensions(our_class):
    """Yield our methods that extend a method of Nova by ``super()``.

    :param our_class: class that is derived from a class of Nova
    :returns: iterator of (full name of Nova's method, Nova's method or None,
        our function)
    """
    our_classes = [base for base in our_class.__mro__
                   if base.__module__.startswith('nova_prio.')]
    # In the order of method resolution, our own classes come first, and the
    # class of Nova that they extend comes next: its index is their number.
    nova_class = our_class.__mro__[len(our_classes)]
    for base in our_classes:
        for name, member in vars(base).items():
            # Static methods, class methods and decorators wrap the function.
            function = inspect.unwrap(getattr(member, '__func__', member))
            # A function that calls super().NAME has both words among the names
            # in its code. One that replaces Nova's method has not.
            if inspect.isfunction(function) and (
                    {'super', name} <= set(function.__code__.co_names)):
                full_name = '%s.%s.%s' % (
                    nova_class.__module__, nova_class.__qualname__, name)
                yield full_name, getattr(nova_class, name, None), function


def _compare_method(name, nova_method, our_method):
    """Return how a method of Nova differs from our extension, or None.

    Each parameter of our method must be in the same place in Nova's method,
    and have the same name unless it is positional-only. If our method has
    ``*args`` or ``**kwargs``, it forwards all other parameters.

    :param name: full name of Nova's method
    :param nova_method: Nova's method, or None if it does not exist
    :param our_method: our function, which extends it
    """
    if nova_method is None:
        return '%s does not exist' % name
    # The parameters of Nova that our method has not matched yet.
    remaining = list(inspect.signature(nova_method).parameters)
    forwards = False  # whether *args or **kwargs were found
    for parameter in inspect.signature(our_method).parameters.values():
        # Our parameters after *args are passed by name: any place will do.
        # Before it, only the next parameter of Nova matches.
        allowed = remaining if forwards else remaining[:1]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            forwards = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and remaining:
            # Its name does not matter.
            del remaining[0]
        elif parameter.name in allowed:
            remaining.remove(parameter.name)
        else:
            return _LACKS % (name, parameter.name)
    if remaining and not forwards:
        return '%s has a new parameter %r' % (name, remaining[0])
    return None


def list_names(service):
    """Yield the names of Nova that a service relies on.

    ``NAMES`` is a dict, tuple of services -> text. In the text, "nova.a b
    nova.a:B c(d)" stands for "nova.a:b", and for "nova.a:B.c" with the
    parameter d.

    :returns: iterator of (path, list of parameters), as :func:`compare_name`
        takes them
    """
    for services, text in interfaces.NAMES.items():
        if service not in services:
            continue
        # The pattern finds pairs: a name, and the text in its parentheses.
        for name, parameters in re.findall(_NAME, text):
            if '.' in name:
                # Only a module or module:class has a dot. The names after it
                # are names in this module or class.
                owner = name + ('.' if ':' in name else ':')
            else:
                yield owner + name, re.findall(r'\w+', parameters)


def _find_missing_options(service):
    """Yield a sentence for each option that a service reads and Nova lacks.

    :param service: such as 'nova-compute'
    """
    from nova import conf
    # OPTIONS is a dict, tuple of services -> text with words "GROUP.OPTION".
    for services, text in interfaces.OPTIONS.items():
        for path in text.split():
            group, option = path.split('.')
            if service in services and not prio_conf.is_registered(
                    conf.CONF, group, option):
                yield '[%s] %s does not exist' % (group, option)


def find_mismatches(service):
    """Return how the running Nova differs for a service, a list of str.

    Compare the names of Nova, the methods and the options that the service
    relies on.

    :param service: such as 'nova-compute'
    """
    # Each comparison has a sentence, or None if Nova matches. EXTENDED is a
    # dict, service -> list of full names of our classes that extend a class of
    # Nova.
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

    If Nova matches, but its release is not tested, only warn.

    :param service: such as 'nova-compute'
    :raises StartRefused: if Nova lacks a name, a parameter or an option that
        the service relies on
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
        LOG.warning('nova-prio is not tested with Nova %s, only with %s; its '
                    'interfaces match in %s.', release,
                    ', '.join(map(str, TESTED_RELEASES)), service)
