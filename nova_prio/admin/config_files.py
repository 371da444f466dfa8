# SPDX-License-Identifier: Apache-2.0

"""Read the configuration files of the services."""

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


def find_paths(conf: cfg.ConfigOpts) -> list[str]:
    """Return the paths of the files that conf has read, in their order."""
    paths = list(conf.config_file)
    for directory in conf.config_dirs:
        paths += sorted(glob.glob(os.path.join(directory, '*.conf')))
    return paths


def read_sections(path: str) -> dict[str, dict[str, list[str]]]:
    """Return the content of a file: group -> option -> values."""
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(path, sections).parse()
    return sections


def format_read_error(error: Exception, files: abc.Iterable[str] = ()) -> str:
    """Return the sentence about one of :data:`ERRORS`.

    :param files: paths of the files, to name the one that cannot be decoded
    """
    text = ' '.join(str(error).split()).rstrip('.')
    if isinstance(error, UnicodeDecodeError):
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
