# SPDX-License-Identifier: Apache-2.0

"""The directive ``maturity``, a table of the commands and of their options."""

from sphinx.util import docutils

from nova_prio.model import maturity

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 30 12 35 23

   * - command
     - maturity
     - stable options
     - new options
"""

_ROW = """\
   * - ``%s``
     - %s
     - %s
     - %s
"""


class Maturity(docutils.SphinxDirective):
    """Render one row for each command."""

    def run(self):
        self.env.note_dependency(maturity.__file__)
        rows = []
        for name, command in sorted(maturity.COMMANDS.items()):
            rows.append(_ROW % (name, command.maturity,
                                _format_names(command.stable),
                                _format_names(command.new)))
        return self.parse_text_to_nodes(_HEAD + ''.join(rows))


def _format_names(names):
    """Return the names of options as literals.

    :param names: text with spaces between the names
    """
    return ', '.join('``%s``' % name for name in sorted(names.split()))


def setup(app):
    app.add_directive('maturity', Maturity)
    return {'parallel_read_safe': True}
