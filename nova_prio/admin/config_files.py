# SPDX-License-Identifier: Apache-2.0

"""Read the configuration files of the services."""

import argparse
import collections
from collections import abc
import glob
import os
import pathlib

from oslo_config import cfg

#: Errors of reading files with oslo.config. It does not translate the errors
#: of a directory in place of a file and of a file that is not UTF-8.
ERRORS = (cfg.Error, OSError, UnicodeDecodeError)

#: Options of Nova whose values name drivers, filters and weighers, which may
#: be those of this package: (group, option).
PLUGIN_OPTIONS = (('DEFAULT', 'compute_driver'),
                  ('filter_scheduler', 'available_filters'),
                  ('filter_scheduler', 'enabled_filters'),
                  ('filter_scheduler', 'weight_classes'))

#: Programs of the services that load this package. oslo.config searches the
#: default files and directories by the name of the program.
_PROGRAMS = ('nova-compute', 'nova-scheduler', 'nova-api', 'nova-api-wsgi')


def find_paths(conf: cfg.ConfigOpts) -> list[str]:
    """Return the paths of the files that conf has read, in their order.

    The default files and directories depend on the name of the program. In
    place of those of a command, return those of each service. If files are
    given, but no directories, oslo.config still reads the default directories.
    """
    paths = list(conf.config_file)
    # conf has read only the default files of this program, if there are any.
    if paths == conf.default_config_files:
        for program in _PROGRAMS:
            paths += cfg.find_config_files('nova', program)
    directories = list(conf.config_dirs)
    if not directories:
        for program in _PROGRAMS:
            directories += cfg.find_config_dirs('nova', program)
    for directory in directories:
        paths += list_files(directory)
    # The services share nova.conf and nova.conf.d.
    return list(dict.fromkeys(paths))


def list_files(directory: str) -> list[str]:
    """Return the paths of the files that oslo.config reads in a directory."""
    return sorted(glob.glob(
        os.path.join(os.path.expanduser(directory), '*.conf')))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options --config-file and --config-dir, which oslo.config reads.

    Both add to the list ``config_options``, such as ['--config-file=PATH']:
    their order decides which value overrides which.
    """
    for name, metavar, text in (
            ('--config-file', 'PATH',
             'read this nova.conf (repeat option to read multiple files; '
             'default: /etc/nova/nova.conf)'),
            ('--config-dir', 'DIR',
             'read the .conf files of this directory; of all files and '
             'directories, the last one with an option decides (repeat option '
             'to read multiple directories; default: /etc/nova/nova.conf.d)')):
        # The type turns PATH into '--config-file=PATH'.
        parser.add_argument(
            name, dest='config_options', action='append', default=[],
            type=(name + '={}').format, metavar=metavar, help=text)


def read_sections(path: str) -> dict[str, dict[str, list[str]]]:
    """Return the content of a file: group -> option -> values.

    As oslo.config reads them, the names of groups are in lower case, but for
    DEFAULT. The values are those of all lines that set the option.
    """
    # The parser fills this dict, with the names of groups as in the file.
    read: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(path, read).parse()
    sections: dict[str, dict[str, list[str]]] = collections.defaultdict(dict)
    for name, options in read.items():
        group = name if name == 'DEFAULT' else name.lower()
        for option, values in options.items():
            sections[group].setdefault(option, []).extend(values)
    return sections


def format_read_error(error: Exception, options: abc.Iterable[str]) -> str:
    """Return the sentence about one of :data:`ERRORS`.

    :param options: ``config_options`` of :func:`add_options`, such as
        '--config-file=PATH': the sentence names the file among them that
        cannot be decoded
    """
    text = ' '.join(str(error).split()).rstrip('.')
    if isinstance(error, UnicodeDecodeError):
        # This error does not name the file: look for it.
        files = []
        for option in options:
            name, _, path = option.partition('=')
            if name == '--config-dir':
                files += list_files(path)
            else:
                files.append(path)
        for path in files:
            if _is_undecodable(path):
                text = '%s: %s' % (path, text)
                break
    return 'The configuration of Nova cannot be read: %s.' % text


def _is_undecodable(path: str) -> bool:
    """Return whether a file can be read, but not decoded as text."""
    try:
        # Like oslo.config, decode with the encoding of the locale.
        pathlib.Path(path).expanduser().read_text()
    except UnicodeDecodeError:
        return True
    except OSError:
        pass
    return False
