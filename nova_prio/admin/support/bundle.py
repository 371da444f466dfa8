# SPDX-License-Identifier: Apache-2.0

"""Collect the files of a support bundle, and make its archive."""

from __future__ import annotations

from collections import abc
import io
import json
import tarfile
import time
import typing

from oslo_config import cfg

from nova_prio.admin import host_inventory
from nova_prio.admin.support import configuration
from nova_prio.admin.support import masking
from nova_prio.admin.support import parts
from nova_prio.admin.support import source

#: State of a file that is complete.
OK = 'ok'

_INDEX = """\
Support bundle of nova-prio, made on %s at %s UTC.

Passwords, tokens and options that may be secret are replaced by %s. Names of
servers, projects and users are not included, unless a log line or the
metadata of an aggregate has them. UUIDs, and names of hosts, host aggregates
and libvirt domains are included.
"""


class File(typing.NamedTuple):
    """A file of the archive.

    ``state`` is ``OK``, or a sentence that tells why the file is missing:
    ``text`` is then ''.
    """

    name: str
    content: str
    state: str
    text: str


def collect(sources: source.Source | None, problem: str = '',
            ) -> abc.Iterator[File]:
    """Yield the files of a bundle. A part that fails only gets a state.

    :param sources: None if Nova's configuration cannot be read
    :param problem: sentence that tells why it cannot be read
    """
    secrets: abc.Iterable[str] = ()
    if sources:
        try:
            secrets = configuration.find_secrets(sources.conf)
        except Exception as error:
            # Without the secrets, nothing can be masked.
            sources, problem = None, _describe_error(error)
    masker = masking.Masker(secrets)
    for part in parts.ALL:
        text = ''
        if part.needs_configuration and sources is None:
            state = problem
        else:
            try:
                text, state = _format(part, masker.mask(
                    part.read(sources))), OK
            # Code of services turns an error at their start into SystemExit.
            except (Exception, SystemExit) as error:
                state = masker.mask_text(_describe_error(error))
        yield File(part.name, part.content, state, text)


def make_archive(files: abc.Sequence[File], host: str, seconds: float,
                 ) -> bytes:
    """Return the tar.gz archive of a bundle, with an index.

    :param host: name of this host
    :param seconds: time of the bundle, since 1970
    """
    now = time.gmtime(seconds)
    index = _INDEX % (
        host, time.strftime('%Y-%m-%d %H:%M:%S', now), masking.MASK) + ''.join(
            '\n%s: %s\n    %s\n' % file[:3] for file in files)
    texts = {'index.txt': index, **{
        file.name: file.text for file in files if file.state == OK}}
    directory = 'nova-prio-report-%s-%s' % (
        host, time.strftime('%Y%m%dT%H%M%SZ', now))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode='w:gz') as tar:
        for name, text in texts.items():
            content = text.encode()
            member = tarfile.TarInfo('%s/%s' % (directory, name))
            member.size, member.mtime = len(content), int(seconds)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def _format(part: parts.Part, data: typing.Any) -> str:
    """Return the text of a file."""
    if part.name.endswith('.txt'):
        return ''.join(line + '\n' for line in data)
    return json.dumps(data, indent=2) + '\n'


def _describe_error(error: BaseException) -> str:
    """Return the reason why a part is missing, a sentence."""
    if isinstance(error, cfg.Error):
        # The text of such an error has the value of the option.
        return ('The configuration has an error (%s): run "nova-prio-status '
                'upgrade check" to see it.' % type(error).__name__)
    if isinstance(error, source.Unavailable):
        return '%s.' % error
    return '%s: %s.' % (type(error).__name__,
                        host_inventory.format_first_line(str(error)))
