# SPDX-License-Identifier: Apache-2.0

"""The directive ``compatibility``, a table of the tested releases of Nova.

It reads the constraints files that the tests install from, and the list of
test environments in ``tools/test``.
"""

import pathlib
import re

from sphinx.util import docutils

from nova_prio.compat import contract

_ROOT = pathlib.Path(__file__).parents[3]

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 16 14 12 38 20

   * - Nova
     - Placement
     - Python
     - distributions
     - tests of each change
"""

_ROW = """\
   * - %s (%s)
     - %s
     - %s
     - %s
     - %s
"""

# From the documentation of the distributions. RDO ended its builds in 2026.
_DISTRIBUTIONS = {
    31: ('Debian 13; Ubuntu 24.04 with the cloud archive ``epoxy``; '
         'RDO Epoxy on CentOS Stream 10'),
    32: ('Ubuntu 24.04 with the cloud archive ``flamingo``; '
         'RDO Flamingo on CentOS Stream 10'),
    33: 'Ubuntu 26.04, and 24.04 with the cloud archive ``gazpacho``',
}


class Compatibility(docutils.SphinxDirective):
    """Render one row for each release, the newest first."""

    def run(self):
        tests = _ROOT / 'tools' / 'test'
        self.env.note_dependency(str(tests))
        rows = []
        for release in sorted(contract.TESTED_RELEASES, reverse=True):
            path = _ROOT / 'constraints' / ('nova%d.txt' % release)
            self.env.note_dependency(str(path))
            rows.append(_format_row(release, path.read_text(),
                                    tests.read_text()))
        return self.parse_text_to_nodes(_HEAD + ''.join(rows))


def _format_row(release, constraints, tests):
    """Return the row of a release.

    :param constraints: text of its constraints file
    :param tests: text of ``tools/test``
    """
    def find(pattern):
        return re.search(pattern, constraints, re.M).group(1)

    # The list after "" is that of a run without arguments.
    each_change = tests.split('"")', 1)[1].split(';;', 1)[0]
    environments = re.findall(r'[\w-]+-nova%d\b' % release, each_change)
    return _ROW % (
        find(r'^nova==(.+)'), find(r'\((\d{4}\.\d)'),
        find(r'^openstack-placement==(.+)'), find(r'Python (\S+)\.$'),
        _DISTRIBUTIONS.get(release, 'none yet'),
        ', '.join(map('``%s``'.__mod__, environments)) or 'all')


def setup(app):
    app.add_directive('compatibility', Compatibility)
    return {'parallel_read_safe': True}
