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


"""How values are shown that are numbers by name."""

from cliff import columns


class Value(columns.FormattableColumn):
    """Numbers by name, or a text; a program gets them as they are."""

    def human_readable(self):
        """Return it as it is shown in a table."""
        if isinstance(self._value, str):
            return self._value
        from nova_prio.audit import finding
        return finding.text(self._value) if self._value else 'none'
