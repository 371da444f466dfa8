# SPDX-License-Identifier: Apache-2.0

"""Mask secrets in texts.

A secret that the configuration has is masked wherever it occurs. Other secrets
are masked by their form, or by the name before them. If in doubt, a text is
masked.
"""

from __future__ import annotations

from collections import abc
import json
import re
import typing
from urllib import parse

from oslo_utils import strutils

MASK = '***'

#: Least length of a secret that is masked wherever it occurs. A shorter one
#: would also mask parts of other words.
LEAST_LENGTH = 6

_SECRET_NAME = re.compile(
    r'pass(?!through)|pswd|secret|token|cred|hmac|cookie|key(?!map|stone)',
    re.IGNORECASE)

# The end of a word that names a secret in a text.
_WORD = (r'(?:pass(?:w(?:or)?d|phrase|_?key)?|pswd|secret|token|'
         r'credential|authorization|cookie|hmac|'
         r'(?:api|private|access)[_-]?key)(?:[_-][\w-]+|\d+)?')

#: Pattern, replacement. The limits of lengths bound the time for a long text.
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), replacement)
             for pattern, replacement in (
    (r'(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [^-]*-----|\Z)',
     MASK),
    # Fernet tokens and web tokens of Keystone.
    (r'gAAAA[\w=-]+|eyJ[\w-]+\.[\w.-]+', MASK),
    # The user and password of a URL. A password may have "@" and "/".
    (r'(://)\S{0,999}@', r'\1%s@' % MASK),
    # "user:password@host" without a scheme.
    (r'[^\s:@/\'"]{0,99}:(?!//)\S{0,999}@', MASK + '@'),
    # A secret may have spaces and quotes: mask the rest of the line.
    (r'(--[\w-]{0,99}%s[ =]+).+' % _WORD, r'\1' + MASK),
    (r'(%s["\'\]]*\s*[:=]>?\s*)(?=\S).+' % _WORD, r'\1' + MASK))]


def is_secret_name(name: str) -> bool:
    """Return whether a value with this name may be a secret."""
    return bool(_SECRET_NAME.search(name))


def find_passwords(text: str) -> abc.Iterator[str]:
    """Yield the texts that may be a password in "user:password@host".

    A password may have any character, and a text may have several URLs, so
    each text between a colon and an at sign counts. A URL may also have a
    token before the at sign, without a colon.
    """
    starts = [match.end() for match in re.finditer(':(//)?', text)]
    for at in re.finditer('@', text):
        yield from (text[start:at.start()] for start in starts
                    if start < at.start())


class Masker:
    """Masks the secrets in the content of a bundle."""

    def __init__(self, secrets: abc.Iterable[str]) -> None:
        """Prepare the search.

        :param secrets: values of options; each line of a value and each item
            of a list is a secret, too
        """
        forms = {form for secret in secrets for form in _list_forms(secret)}
        # The longest ones first: one secret may be a part of another.
        self._secrets = re.compile('|'.join(map(re.escape, sorted(
            (form for form in forms if len(form) >= LEAST_LENGTH),
            key=len, reverse=True))) or r'(?!)')

    def mask_text(self, text: str) -> str:
        """Return a text without secrets."""
        text = self._secrets.sub(MASK, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return strutils.mask_password(text, MASK)

    def mask(self, value: typing.Any) -> typing.Any:
        """Return data for JSON without secrets in its texts.

        In a dict, a text or a list with the name of a secret is masked. An
        object becomes its text.
        """
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, dict):
            return {self.mask_text(str(name)):
                    MASK if is_secret_name(str(name)) and value[name] and
                    isinstance(value[name], (str, list, dict))
                    else self.mask(value[name]) for name in value}
        if isinstance(value, (list, tuple)):
            return list(map(self.mask, value))
        return self.mask_text(str(value))


def _list_forms(secret: str) -> abc.Iterator[str]:
    """Yield the forms in which a secret may occur in a text."""
    for text in {secret, *secret.splitlines(), *secret.split(','),
                 *find_passwords(secret)}:
        stripped = text.strip(' \'"[]{}')
        for form in {text, stripped}:
            for name in {form, parse.unquote(form), parse.unquote_plus(form)}:
                yield from (name, parse.quote(name), parse.quote(name, ''),
                            parse.quote_plus(name), repr(name)[1:-1],
                            json.dumps(name)[1:-1], name.replace('%', '%%'),
                            name.replace('$$', '$'))
