# SPDX-License-Identifier: Apache-2.0

"""The directive ``refusals``, a table of the reasons to refuse an instance.

Its argument is the name of a dict in ``nova_prio.model.reasons``.
"""

from sphinx.util import docutils

from nova_prio.model import reasons

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 22 48 30

   * - reason
     - text and cause
     - remedy
"""

_ROW = """\
   * - ``%s``
     - %s

       %s
     - %s
"""


class Refusals(docutils.SphinxDirective):
    """Render one row for each reason of the dict."""

    required_arguments = 1

    def run(self):
        self.env.note_dependency(reasons.__file__)
        rows = [_ROW % (name, _format_text(reason.text), reason.cause,
                        reason.remedy)
                for name, reason in vars(reasons)[self.arguments[0]].items()]
        return self.parse_text_to_nodes(_HEAD + ''.join(rows))


def _format_text(text):
    """Return a text with N and dots for its values, or '' without words."""
    text = text.replace('%d', 'N').replace('%s', '...')
    return '``%s``' % text if text.strip('.: ') else ''


def setup(app):
    app.add_directive('refusals', Refusals)
    return {'parallel_read_safe': True}
