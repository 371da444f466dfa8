# SPDX-License-Identifier: Apache-2.0

"""Fixtures: a browser, and pages that it opens."""

import dataclasses

import pytest

from nova_prio.admin.page import content
from nova_prio.admin.page import templates
from tests.browser import chromium
from tests.browser import pages


@pytest.fixture(scope='session')
def _chromium():
    with chromium.run() as driver:
        yield driver


@pytest.fixture
def browser(_chromium):
    """A browser with a wide, light screen; the test must cause no error."""
    chromium.set_screen(_chromium)
    yield _chromium
    assert [] == _chromium.get_log('browser')


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that opens the page of a ``content.Page``."""
    def open_page(page):
        path = tmp_path / 'page.html'
        path.write_text(templates.render(page), 'utf-8')
        browser.get(path.as_uri())
    return open_page


@pytest.fixture
def fleet(open_page, browser):
    """A browser with the page of 30 hosts.

    compute-4 is not available, and compute-8 takes no priority servers.
    """
    hosts = [pages.make_host(number) for number in range(30)]
    hosts[4] = dataclasses.replace(
        hosts[4], is_open=False, problems=['nova-compute is disabled.'])
    hosts[8] = dataclasses.replace(
        hosts[8], takes_priority=False,
        problems=[content.NO_PRIORITY_AGGREGATE])
    open_page(content.Page(
        title='Capacity', steps=[pages.make_step(hosts)], data=[],
        flavor='high-8', flavor_row='high', warnings=['A warning.'],
        lead=['30 hosts.']))
    return browser


@pytest.fixture(scope='session')
def _played(tmp_path_factory):
    """The path of the page of the worked example, and the JSON of the run."""
    return pages.play_seed(tmp_path_factory.mktemp('seed'))


@pytest.fixture
def seed(_played, browser):
    """A browser with the page of the worked example."""
    browser.get(_played[0].as_uri())
    return browser


@pytest.fixture
def seed_json(_played):
    """The JSON document of the same run."""
    return _played[1]
