# SPDX-License-Identifier: Apache-2.0

"""How Sphinx builds the documentation."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / '_ext'))

extensions = [
    'cliff.sphinxext',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'refusals',
]

project = 'nova-prio'
copyright = 'nova-prio contributors'
root_doc = 'index'

# The theme reads the version from git or from the installed package; this
# project is published nowhere yet, so nothing else of it is asked for.
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_pdf_link = False
openstackdocs_use_storyboard = False
version = ''
release = ''

templates_path = ['_templates']
html_theme = 'openstackdocs'
# The theme would load a tracker from another host.
html_theme_options = {'analytics_tracking_code': ''}
pygments_style = 'native'
