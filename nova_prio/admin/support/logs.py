# SPDX-License-Identifier: Apache-2.0

"""The last log lines of this package."""

from __future__ import annotations

import collections
from collections import abc
import glob
import os
import re
import typing

from nova_prio.admin.support import source

if typing.TYPE_CHECKING:
    from oslo_config import cfg

#: Lines of each file.
LINES = 1000
#: Bytes at the end of each file that are searched.
_SEARCHED_BYTES = 256 * 2 ** 20
#: A logger of this package, after its level or in a line of JSON.
_LOGGER = re.compile(r'(?:\b[A-Z]{4,8}\s+|")nova_prio(?:_host)?\.')

_JOURNAL = ('[DEFAULT] log_file and log_dir are not set, so the services may '
            'log to the journal; also send the output of: journalctl '
            '--lines=%d --grep=nova_prio' % LINES)


def read(sources: source.Source) -> list[str]:
    """Return the last lines of each log file that nova.conf names.

    :raises nova_prio.admin.support.source.Unavailable: without a log file
    """
    lines = []
    for path in _find_paths(sources.conf):
        lines.append('==> %s <==' % path)
        try:
            lines += _read_end(path)
        except OSError as error:
            lines.append('This file cannot be read: %s.' % error.strerror)
    return lines


def _find_paths(conf: cfg.ConfigOpts) -> list[str]:
    """Return the paths of the log files of the services on this host."""
    # oslo.log registers these options, not Nova.
    directory, name = (conf[option] for option in ('log_dir', 'log_file'))
    if not (directory or name):
        raise source.Unavailable(_JOURNAL)
    if name:
        return [os.path.join(directory or '', name)]
    pattern = os.path.join(glob.escape(directory), 'nova-*.log')
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise source.Unavailable('There is no file %s' % pattern)
    return paths


def _read_end(path: str) -> abc.Iterable[str]:
    """Return the last lines of this package in a file."""
    with open(path, 'rb') as file:
        file.seek(max(0, os.path.getsize(path) - _SEARCHED_BYTES))
        lines = (line.decode('utf-8', 'replace').rstrip() for line in file)
        return collections.deque(filter(_LOGGER.search, lines), LINES)
