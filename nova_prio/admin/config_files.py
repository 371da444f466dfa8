# SPDX-License-Identifier: Apache-2.0

"""Read and check the configuration files of the services."""

import contextlib
import difflib
import glob
import itertools
import os
import pathlib

from oslo_config import cfg

from nova_prio.compat import contract
from nova_prio import conf as our_conf

#: Errors of reading files with oslo.config. It does not translate the errors
#: of a directory in place of a file and of a file that is not UTF-8.
ERRORS = (cfg.Error, OSError, UnicodeDecodeError)

_GROUP = our_conf.GROUP.name


def find_paths(conf):
    """Return the paths of the files that conf has read, in their order."""
    return list(itertools.chain(conf.config_file, *(
        sorted(glob.glob(os.path.join(directory, '*.conf')))
        for directory in conf.config_dirs)))


def read_sections(path):
    """Return the content of a file: dict, group -> option -> list of str."""
    sections = {}
    cfg.ConfigParser(path, sections).parse()
    return sections


def format_read_error(error, files=()):
    """Return the sentence about one of :data:`ERRORS`.

    :param files: paths of the files, to name the one that is not UTF-8
    """
    text = ' '.join(str(error).split()).rstrip('.')
    if isinstance(error, UnicodeDecodeError):
        for path in files:
            with contextlib.suppress(OSError):
                try:
                    pathlib.Path(path).expanduser().read_text()
                except UnicodeDecodeError:
                    text = '%s: %s' % (path, text)
                    break
    return 'The configuration of Nova cannot be read: %s.' % text


def find_unknown_options(conf):
    """Yield a sentence for each probable misspelling in the files.

    These are all unknown options in ``[nova_prio]``, and unknown groups and
    other options whose names are similar to names of this package.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts`` that has read the files
    """
    for path in find_paths(conf):
        for group, options in read_sections(path).items():
            # oslo.config ignores the case of all other groups.
            name = group if group == 'DEFAULT' else group.lower()
            if name not in conf and _find_similar(name, [_GROUP]):
                yield ('[%s] in %s is no group of options and has no effect; '
                       'did you mean [%s]?' % (group, path, _GROUP))
                continue
            for option in options:
                remedy = _suggest(conf, name, option)
                if remedy:
                    yield ('[%s] %s in %s is no option and has no effect; %s'
                           % (group, option, path, remedy))


def _suggest(conf, group, option):
    """Return the remedy for a misspelled option, None for another one."""
    groups = {each.name: registered.name if registered else 'DEFAULT'
              for registered, options in our_conf.list_opts()
              for each in options}
    aliases = {(alias.group, alias.name) for each in our_conf.DEFAULT_OPTS
               for alias in each.deprecated_opts}
    if (contract.is_registered(conf, group, option) or
            (group, option) in aliases):
        return None
    # Other libraries have options with the name 'enabled'.
    similar = (_find_similar(option, groups, 0.6) if group == _GROUP else
               _find_similar(option, groups.keys() - {'enabled'}))
    if similar:
        return 'did you mean [%s] %s?' % (groups[similar[0]], similar[0])
    return 'remove it.' if group == _GROUP else None


def _find_similar(name, names, cutoff=0.85):
    return difflib.get_close_matches(name, sorted(names), 1, cutoff)
