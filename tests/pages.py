# SPDX-License-Identifier: Apache-2.0

"""Access to the documentation pages for tests."""

import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / 'README.rst', ROOT / 'CONTRIBUTING.rst', ROOT / 'HACKING.rst',
         *sorted((ROOT / 'doc' / 'source').rglob('*.rst'))]
ADMIN = ROOT / 'doc' / 'source' / 'admin'
START_LINES = ADMIN / 'start-lines.rst'

_BLOCK = re.compile(
    r'^( *)\.\. code-block:: (\w+)\n((?:\n|\1   .*\n)+)', re.M)
_LITERAL_BLOCK = re.compile(r'::\n\n((?:    .*\n)+)')
_START_LINE = re.compile(r'^.*?\bnova_prio (?:\d\S*|\|release\|): (.+)$', re.M)


def snippets(language):
    """Return the snippets of the pages in a language.

    :param language: of ``code-block``; console includes the literal blocks
        of README.rst
    :returns: list of (text, name of the snippet: page and number)
    """
    found = []
    for page in PAGES:
        blocks = [(name, text) for _, name, text in
                  _BLOCK.findall(page.read_text())]
        if language == 'console':
            blocks += [('console', text) for text in
                       _LITERAL_BLOCK.findall(page.read_text())]
        found += [
            (textwrap.dedent(text).strip('\n') + '\n',
             '%s-%d' % (page.relative_to(ROOT), number))
            for number, (name, text) in enumerate(blocks) if name == language]
    return found


def start_lines(text):
    """Return the start lines of services, with RELEASE for a version.

    :param text: a log, or a page that quotes the lines
    :returns: list of str
    """
    return ['nova_prio RELEASE: ' + said
            for said in _START_LINE.findall(text)]
