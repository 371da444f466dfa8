# SPDX-License-Identifier: Apache-2.0

"""The directives ``metrics`` and ``alerts``, tables for Prometheus.

The argument of ``metrics`` is ``cloud`` or ``host``: the metrics of
``nova-prio metrics`` or of ``nova-prio-host metrics``.
"""

import pathlib
import re

from sphinx.util import docutils
import yaml

from nova_prio.admin import cloud_metrics
from nova_prio_host import host_metrics

_RULES = (pathlib.Path(__file__).parents[3]
          / 'etc' / 'prometheus' / 'nova_prio.rules.yml')

_METRICS_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 50 50

   * - metric
     - meaning
"""

_METRICS_ROW = """\
   * - ``%s``
     - %s
"""

_ALERTS_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 30 28 42

   * - alert
     - meaning
     - action
"""

_ALERTS_ROW = """\
   * - ``%s``
     - %s
     - %s
"""


class Metrics(docutils.SphinxDirective):
    """Render one row for each metric of a command."""

    required_arguments = 1

    def run(self):
        modules = {'cloud': cloud_metrics, 'host': host_metrics}
        module = modules[self.arguments[0]]
        self.env.note_dependency(module.__file__)
        rows = []
        for name, metric in module.METRICS.items():
            if metric.labels:
                name = '%s{%s}' % (name, ','.join(metric.labels))
            rows.append(_METRICS_ROW % (name, metric.help))
        return self.parse_text_to_nodes(_METRICS_HEAD + ''.join(rows))


class Alerts(docutils.SphinxDirective):
    """Render one row for each alert."""

    def run(self):
        self.env.note_dependency(str(_RULES))
        rows = []
        for group in yaml.safe_load(_RULES.read_text())['groups']:
            for rule in group['rules']:
                if 'alert' in rule:
                    texts = rule['annotations']
                    rows.append(_ALERTS_ROW % (
                        rule['alert'], _format_text(texts['summary']),
                        _format_text(texts['description'])))
        return self.parse_text_to_nodes(_ALERTS_HEAD + ''.join(rows))


def _format_text(text):
    """Return an annotation with dots for its values, and links to pages."""
    text = re.sub(r'\{\{ \$labels\.(\w+) \}\}',
                  lambda found: found.group(1).upper(), text)
    text = re.sub(r'\{\{.*?\}\}', '...', text, flags=re.S)
    text = re.sub(r'"(nova-prio[^"]*)"', r'``\1``', text)
    return re.sub(r'doc/source(/\S+?)\.rst', r':doc:`\1`', text)


def setup(app):
    app.add_directive('metrics', Metrics)
    app.add_directive('alerts', Alerts)
    return {'parallel_read_safe': True}
