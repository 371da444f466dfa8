# SPDX-License-Identifier: Apache-2.0

"""The files from which the services and commands read their options."""

import difflib
import glob
import itertools
import os
import pathlib

from oslo_config import cfg

from nova_prio.compat import contract
from nova_prio import conf as our_conf

#: Errors of oslo.config, and those of a file that it lets through: a
#: directory in place of a file, a file that is not UTF-8.
ERRORS = (cfg.Error, OSError, UnicodeDecodeError)

_GROUP = our_conf.GROUP.name
#: Similarity above which another name counts as a misspelled one.
_SIMILAR = 0.85


def find_paths(conf):
    """Return the files that were read, in their order.

    :param conf: ``oslo_config.cfg.ConfigOpts`` that has read them
    :returns: list of str
    """
    return list(itertools.chain(conf.config_file, *(
        sorted(glob.glob(os.path.join(directory, '*.conf')))
        for directory in conf.config_dirs)))


def read_sections(path):
    """Return the content of a file.

    :returns: dict, group -> dict, option -> list of str
    """
    found = {}
    cfg.ConfigParser(path, found).parse()
    return found


def format_read_error(error, files=()):
    """Return one line that says why the configuration cannot be read.

    :param error: one of :data:`ERRORS`
    :param files: paths of the files, to name the one that is not UTF-8
    """
    text = ' '.join(str(error).split()).rstrip('.')
    if isinstance(error, UnicodeDecodeError):
        for path in files:
            try:
                pathlib.Path(path).expanduser().read_text()
            except UnicodeDecodeError:
                text = '%s: %s' % (path, text)
                break
            except OSError:
                continue
    return 'The configuration of Nova cannot be read: %s.' % text


def find_unknown_options(conf):
    """Return the options in the files that look like ours but are not.

    These are all unknown options in ``[nova_prio]``, groups with a similar
    name, and unknown options of other groups with a similar name.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts`` that has read the files
    :returns: list of str, one sentence each
    """
    found = []
    for path in find_paths(conf):
        for group, options in read_sections(path).items():
            # As oslo.config reads it.
            name = group if group == 'DEFAULT' else group.lower()
            if name not in conf and _similar(name, [_GROUP]):
                found.append(
                    '[%s] in %s is no group of options and has no effect; did '
                    'you mean [%s]?' % (group, path, _GROUP))
                continue
            found += ['[%s] %s in %s is no option and has no effect; %s'
                      % (group, option, path, hint) for option in options
                      if (hint := _hint(conf, name, option))]
    return found


def _hint(conf, group, option):
    """Return what to do about an option that looks like ours, or None."""
    homes = {each.name: home.name if home else 'DEFAULT'
             for home, ours in our_conf.list_opts() for each in ours}
    aliases = {(other.group, other.name) for each in our_conf.DEFAULT_OPTS
               for other in each.deprecated_opts}
    if (contract.is_registered(conf, group, option) or
            (group, option) in aliases):
        return None
    # Other libraries have options with the name 'enabled'.
    similar = (_similar(option, homes, 0.6) if group == _GROUP else
               _similar(option, homes.keys() - {'enabled'}))
    if similar:
        return 'did you mean [%s] %s?' % (homes[similar[0]], similar[0])
    return 'remove it.' if group == _GROUP else None


def _similar(name, names, cutoff=_SIMILAR):
    return difflib.get_close_matches(name, sorted(names), 1, cutoff)
