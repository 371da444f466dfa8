# SPDX-License-Identifier: Apache-2.0

"""Read and check the configuration files of the services."""

from collections import abc
import difflib
import glob
import os
import pathlib

from oslo_config import cfg

from nova_prio.compat import contract
from nova_prio import conf as our_conf

#: Errors of reading files with oslo.config. It does not translate the errors
#: of a directory in place of a file and of a file that is not UTF-8.
ERRORS = (cfg.Error, OSError, UnicodeDecodeError)

#: Options of Nova whose values name drivers, filters and weighers, which may
#: be those of this package: (group, option).
PLUGIN_OPTIONS = (('DEFAULT', 'compute_driver'),
                  ('filter_scheduler', 'available_filters'),
                  ('filter_scheduler', 'enabled_filters'),
                  ('filter_scheduler', 'weight_classes'))

_GROUP = our_conf.GROUP.name


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

    :param files: paths of the files, to name the one that is not UTF-8
    """
    text = ' '.join(str(error).split()).rstrip('.')
    if isinstance(error, UnicodeDecodeError):
        path = next(filter(_is_undecodable, files), None)
        text = '%s: %s' % (path, text) if path else text
    return 'The configuration of Nova cannot be read: %s.' % text


def _is_undecodable(path: str) -> bool:
    """Return whether a file can be read, but is not UTF-8."""
    try:
        pathlib.Path(path).expanduser().read_text()
    except UnicodeDecodeError:
        return True
    except OSError:
        pass
    return False


def find_unknown_options(conf: cfg.ConfigOpts) -> abc.Iterator[str]:
    """Yield a sentence for each probable misspelling in the files.

    A sentence is about an unknown option in ``[nova_prio]``, or about another
    unknown option or group whose name is similar to a name of this package.

    :param conf: Nova's configuration, which has read the files
    """
    for path in find_paths(conf):
        for group, options in read_sections(path).items():
            # oslo.config ignores the case of all groups but DEFAULT.
            name = group if group == 'DEFAULT' else group.lower()
            if name not in conf and _find_similar(name, [_GROUP]):
                yield ('[%s] in %s is no group of options and has no effect; '
                       'did you mean [%s]?' % (group, path, _GROUP))
                continue
            for option in options:
                remedy = _find_remedy(conf, name, option)
                if remedy:
                    yield ('[%s] %s in %s is no option and has no effect; %s'
                           % (group, option, path, remedy))


def _find_remedy(conf: cfg.ConfigOpts, group: str, option: str) -> str | None:
    """Return the remedy for a misspelled option, or None.

    None is returned for a known option and for an option of other software.
    """
    groups = {opt.name: opt_group.name if opt_group else 'DEFAULT'
              for opt_group, opts in our_conf.list_opts() for opt in opts}
    aliases = {(alias.group, alias.name) for opt in our_conf.DEFAULT_OPTS
               for alias in opt.deprecated_opts}
    if (contract.is_registered(conf, group, option) or
            (group, option) in aliases):
        return None
    if group == _GROUP:
        similar = _find_similar(option, groups, cutoff=0.6)
    else:
        # Other libraries have options with the name 'enabled'.
        similar = _find_similar(option, groups.keys() - {'enabled'})
    if similar:
        return 'did you mean [%s] %s?' % (groups[similar], similar)
    return 'remove it.' if group == _GROUP else None


def _find_similar(name: str, names: abc.Iterable[str],
                  cutoff: float = 0.85) -> str | None:
    """Return the most similar one of some names, or None.

    :param cutoff: least similarity, from 0 to 1
    """
    return next(iter(
        difflib.get_close_matches(name, sorted(names), 1, cutoff)), None)
