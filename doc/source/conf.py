# SPDX-License-Identifier: Apache-2.0

"""How Sphinx builds the documentation."""

from importlib import metadata
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / '_ext'))

extensions = [
    'cliff.sphinxext',
    'compatibility',
    'maturity',
    'metrics',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'refusals',
    'reno.sphinxext',
]

project = 'nova-prio'
copyright = 'nova-prio contributors'
root_doc = 'index'

# The theme would read the version from a tag of git.
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_pdf_link = False
openstackdocs_use_storyboard = False
version = release = metadata.version('nova-prio')

templates_path = ['_templates']
html_theme = 'openstackdocs'
# The theme would load a tracker from another host.
html_theme_options = {'analytics_tracking_code': ''}
pygments_style = 'native'
# Without the default D, which makes a dash of the hyphens of an option.
smartquotes_action = 'qe'


def _insert_release(*arguments):
    """Replace |release|, also in commands, where Sphinx does not."""
    source = arguments[-1]
    source[0] = source[0].replace('|release|', release)


def setup(app):
    app.connect('source-read', _insert_release)
    app.connect('include-read', _insert_release)
