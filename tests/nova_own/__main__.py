# SPDX-License-Identifier: Apache-2.0

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
        '-p', 'tests.nova_own.loaded', '-p', 'tests.nova_own.calls',
        '-p', 'no:cacheprovider',
        '--rootdir', str(pathlib.Path(nova.__file__).parents[1]),
        '--pyargs', str(HERE / 'test_loaded.py'),
        *(selection.PACKAGE + name for name in selection.MODULES),
        *sys.argv[1:]]))
