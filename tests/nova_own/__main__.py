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

"""Run Nova's own tests with this package loaded.

Usage: ``python -m tests.nova_own [--short] [ARGUMENT...]``, arguments of
pytest.
"""

import pathlib
import sys

import nova
import pytest

from tests.nova_own import selection

HERE = pathlib.Path(__file__).parent

if __name__ == '__main__':
    sys.exit(pytest.main([
        '-p', 'tests.nova_own.loaded', '-p', 'no:cacheprovider',
        '--rootdir', str(pathlib.Path(nova.__file__).parents[1]),
        '--pyargs', str(HERE / 'test_loaded.py'),
        *(selection.PACKAGE + name for name in selection.MODULES),
        *sys.argv[1:]]))
