# SPDX-License-Identifier: Apache-2.0

"""The configuration of Nova, without its secrets.

An option is shown only if it is known to be harmless: Nova registers it, not
as a secret, and its name is not that of a secret. The value is then masked as
any other text. oslo.config knows the options of other libraries only after
these libraries are used, so of them only the options in ``_HARMLESS`` and all
numbers are shown.
"""

from __future__ import annotations

from collections import abc
import re
import typing

from nova.conf import opts as nova_opts
from oslo_config import cfg

from nova_prio.admin import config_files
from nova_prio.admin.support import masking
from nova_prio.compat import contract
from nova_prio import conf as prio_conf

#: Harmless options of libraries, in any group.
_HARMLESS = frozenset((
    'auth_section', 'auth_type', 'auth_url', 'backend', 'config_dir',
    'config_file', 'default_log_levels', 'driver', 'endpoint_id', 'lock_path',
    'log_config_append', 'log_dir', 'log_file', 'memcached_servers',
    'policy_dirs', 'policy_file', 'region_name', 'www_authenticate_uri'))

#: Names of users and projects are not in the bundle.
_PERSONAL = re.compile(r'user_?(name)?$|(project|tenant)_name$')

#: In place of a value that oslo.config cannot parse.
_INVALID = 'not valid'


class Option(typing.NamedTuple):
    """An option that is set.

    ``value`` is the value in use, or the texts in a file if no library has
    registered the option. ``is_secret`` says that the option is registered as
    a secret or has the name of one, ``is_shown`` that the value is harmless.
    """

    group: str
    name: str
    value: typing.Any
    location: str
    is_secret: bool
    is_shown: bool


def list_options(conf: cfg.ConfigOpts) -> list[Option]:
    """Return the options that are set, and all options of this package.

    :param conf: Nova's configuration, which has read its files
    """
    ours = _index(prio_conf.list_opts())
    known = {**_index(nova_opts.list_opts()), **ours}
    options = []
    for key in _list_registered(conf):
        location, value = _read(conf, *key)
        if location or key in ours:
            options.append(_make_option(*key, value, location, known.get(key)))
    for group, name, values, path in _read_files(conf):
        if not contract.is_registered(conf, group, name):
            options.append(_make_option(
                group, name, values, path, known.get((group, name))))
    return sorted(options, key=lambda option: option[:2])


def find_secrets(conf: cfg.ConfigOpts) -> set[str]:
    """Return the values that must not be in any text.

    These are the values of secret options, and the passwords in the URLs that
    other options have.

    :param conf: Nova's configuration, which has read its files
    """
    options = list_options(conf)
    secret = {option[:2] for option in options if option.is_secret}
    # The text in a file may differ from the value in use, such as "$$" for
    # "$". A file may also have a deprecated name of an option.
    texts = [*((option.is_secret, text) for option in options
               for text in _list_texts(option.value)),
             *(((group, name) in secret or masking.is_secret_name(name), text)
               for group, name, values, _ in _read_files(conf)
               for text in [*values, '\n'.join(values)])]
    return {each for is_secret, text in texts
            for each in (*([text] if is_secret else ()),
                         *masking.find_passwords(text))}


def describe(conf: cfg.ConfigOpts) -> dict[str, typing.Any]:
    """Return the configuration as data for JSON.

    Only the values that must not be shown are masked: mask the result.

    :param conf: Nova's configuration, which has read its files
    """
    return {
        'files': config_files.find_paths(conf),
        'options': [
            {'group': option.group, 'name': option.name,
             'value': _format(option),
             'location': option.location or 'default'}
            for option in list_options(conf)]}


def _index(groups: abc.Iterable[tuple[typing.Any, abc.Iterable[cfg.Opt]]],
           ) -> dict[tuple[str, str], cfg.Opt]:
    """Return dict, (group, name) -> option.

    :param groups: pairs of a group, its name or None, and of its options
    """
    return {(str(getattr(group, 'name', group) or 'DEFAULT'), option.dest):
            option for group, options in groups for option in options}


def _list_registered(conf: cfg.ConfigOpts) -> abc.Iterator[tuple[str, str]]:
    """Yield group and name of each option that is registered."""
    for name in conf:
        try:
            value = conf[name]
        except (cfg.Error, ValueError):
            value = None
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            yield from ((name, member) for member in value)
        else:
            yield 'DEFAULT', name


def _read(conf: cfg.ConfigOpts, group: str, name: str,
          ) -> tuple[str, typing.Any]:
    """Return the location of a registered option, and its value.

    :returns: the location is '' if no file, no environment variable and no
        argument sets the option
    """
    try:
        found = conf.get_location(
            name, None if group == 'DEFAULT' else group)
        value = (conf if group == 'DEFAULT' else conf[group])[name]
    except (cfg.Error, ValueError):
        # The text of the error has the value.
        return 'unknown', _INVALID
    is_set = found is not None and found.location.is_user_controlled
    return (found.detail or found.location.name) if is_set else '', value


def _read_files(conf: cfg.ConfigOpts,
                ) -> abc.Iterator[tuple[str, str, list[str], str]]:
    """Yield group, name and values of each option in a file, and its path."""
    for path in config_files.find_paths(conf):
        for group, options in config_files.read_sections(path).items():
            # As oslo.config does.
            if group != 'DEFAULT':
                group = group.lower()
            for name, values in options.items():
                yield group, name.replace('-', '_'), values, path


def _make_option(group: str, name: str, value: typing.Any, location: str,
                 option: cfg.Opt | None) -> Option:
    """Return the Option.

    :param option: registration of an option of Nova or of this package
    """
    is_number = value is None or isinstance(value, (bool, int, float))
    is_secret = (option is not None and option.secret or
                 not is_number and masking.is_secret_name(name))
    return Option(group, name, value, location, is_secret, not is_secret and (
        is_number or not _PERSONAL.search(name) and
        (option is not None or name in _HARMLESS)))


def _list_texts(value: typing.Any) -> abc.Iterator[str]:
    """Yield the texts in a value of any type."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _list_texts(item)
    yield str(value)


def _format(option: Option) -> typing.Any:
    """Return the value of an option, or a mask."""
    if not option.is_shown:
        return masking.MASK
    # A comma in a password splits it into two items of a list.
    text = str(option.value)
    return text if '@' in text else option.value
