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

import pytest

from nova_prio.scenario import cpu_set


@pytest.mark.parametrize('text, cpus', [
    ('0-3', {0, 1, 2, 3}),
    ('7', {7}),
    ('0-3,^2,8', {0, 1, 3, 8}),
    ('^2,0-3', {0, 1, 3}),
    ('^1', set()),
])
def test_parse(text, cpus):
    assert cpus == cpu_set.parse(text)


@pytest.mark.parametrize('text', ['', 'a', '3-1', '1-', '1,,2'])
def test_parse_refuses(text):
    with pytest.raises(ValueError):
        cpu_set.parse(text)


@pytest.mark.parametrize('cpus, text', [
    ([], ''), ([5], '5'), ([3, 0, 1, 2, 7, 9, 8], '0-3,7-9')])
def test_text(cpus, text):
    assert text == cpu_set.text(cpus)
