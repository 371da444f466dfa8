# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How Sphinx builds the release notes."""

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
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

html_theme = 'openstackdocs'
pygments_style = 'native'
