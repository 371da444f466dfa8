# SPDX-License-Identifier: Apache-2.0

"""The tables of the commands."""

import io

from cliff.formatters import table

from nova_prio.cmd import colors


class TableFormatter(table.TableFormatter):
    """cliff's formatter of tables, with colors on a terminal."""

    def emit_list(self, column_names, data, stdout, parsed_args):
        """Write the table of some rows."""
        text = io.StringIO()
        super().emit_list(column_names, data, text, parsed_args)
        colors.write(stdout, text.getvalue())


class Tables:
    """A mix-in for commands of cliff that list rows."""

    def _load_formatter_plugins(self):
        """Return cliff's formatters, a ``stevedore.ExtensionManager``."""
        formatters = super()._load_formatter_plugins()
        formatters['table'].obj = TableFormatter()
        return formatters
