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

"""The files from which the services and commands read their options."""

import difflib
import glob
import itertools
import os

from oslo_config import cfg

from nova_prio import conf as our_conf
from nova_prio import contract

#: Errors of oslo.config, and those of a file that it lets through: a
#: directory in place of a file, a file that is not UTF-8.
ERRORS = (cfg.Error, OSError, UnicodeDecodeError)

_GROUP = our_conf.GROUP.name
#: Similarity above which another name counts as a misspelled one.
_SIMILAR = 0.85


def paths(conf):
    """Return the files that were read, in their order.

    :param conf: ``oslo_config.cfg.ConfigOpts`` that has read them
    :returns: list of str
    """
    return list(itertools.chain(conf.config_file, *(
        sorted(glob.glob(os.path.join(directory, '*.conf')))
        for directory in conf.config_dirs)))


def sections(path):
    """Return the content of a file.

    :returns: dict, group -> dict, option -> list of str
    """
    found = {}
    cfg.ConfigParser(path, found).parse()
    return found


def unreadable(error, files=()):
    """Return one line that says why the configuration cannot be read.

    :param error: one of :data:`ERRORS`
    :param files: paths of the files, to name the one that is not UTF-8
    """
    text = ' '.join(str(error).split()).rstrip('.')
    if isinstance(error, UnicodeDecodeError):
        text = ': '.join([*filter(_is_not_text, files)][:1] + [text])
    return 'The configuration of Nova cannot be read: %s.' % text


def _is_not_text(path):
    try:
        with open(os.path.expanduser(path)) as file:
            file.read()
    except UnicodeDecodeError:
        return True
    except OSError:
        return False
    return False


def unknown(conf):
    """Return the options in the files that look like ours but are not.

    These are all unknown options in ``[nova_prio]``, groups with a similar
    name, and unknown options of other groups with a similar name.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts`` that has read the files
    :returns: list of str, one sentence each
    """
    return list(itertools.chain.from_iterable(
        _unknown(conf, path, group, options)
        for path in paths(conf) for group, options in sections(path).items()))


def _unknown(conf, path, group, options):
    # As oslo.config reads it.
    name = group if group == 'DEFAULT' else group.lower()
    if name not in conf and _similar(name, [_GROUP]):
        yield ('[%s] in %s is no group of options and has no effect; did you '
               'mean [%s]?' % (group, path, _GROUP))
        return
    homes = {option.name: home.name if home else 'DEFAULT'
             for home, ours in our_conf.list_opts() for option in ours}
    aliases = {(other.group, other.name) for option in our_conf.DEFAULT_OPTS
               for other in option.deprecated_opts}
    for option in options:
        if (contract.is_registered(conf, name, option) or
                (name, option) in aliases):
            continue
        if name == _GROUP:
            similar = _similar(option, homes, 0.6)
        else:
            # Other libraries have options with this name.
            similar = _similar(option, homes.keys() - {'enabled'})
        if similar:
            hint = 'did you mean [%s] %s?' % (
                homes[similar[0]], similar[0])
        elif name == _GROUP:
            hint = 'remove it.'
        else:
            continue
        yield ('[%s] %s in %s is no option and has no effect; %s'
               % (group, option, path, hint))


def _similar(name, names, cutoff=_SIMILAR):
    return difflib.get_close_matches(name, sorted(names), 1, cutoff)
