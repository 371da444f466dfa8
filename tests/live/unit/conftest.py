# SPDX-License-Identifier: Apache-2.0

"""These tests have no cloud to watch."""

import pytest


@pytest.fixture(scope='module')
def watched():
    """Take the place of the fixture that needs a cloud."""


@pytest.fixture(scope='module')
def settled():
    """Take the place of the fixture that needs a cloud."""
