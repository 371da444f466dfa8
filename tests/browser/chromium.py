# SPDX-License-Identifier: Apache-2.0

"""A headless Chromium."""

import contextlib
import json
import shutil
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome import service

OPTIONS = (
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic',
    '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--hide-scrollbars')


@contextlib.contextmanager
def run():
    """Yield a selenium.webdriver.Chrome, which logs all network events."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium')
    options.set_capability('goog:loggingPrefs', {
        'browser': 'ALL', 'performance': 'ALL'})
    with tempfile.TemporaryDirectory(
            prefix='chromium-', ignore_cleanup_errors=True) as directory:
        for option in (*OPTIONS, '--user-data-dir=' + directory):
            options.add_argument(option)
        # With the path of the driver, selenium does not download one.
        driver = webdriver.Chrome(
            options, service.Service(shutil.which('chromedriver')))
        try:
            yield driver
        finally:
            driver.quit()


def set_screen(driver, width=1280, height=900, scheme='light'):
    """Set the size of the screen in pixels, and the color scheme."""
    driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': width, 'height': height, 'deviceScaleFactor': 1,
        'mobile': False})
    driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [
        {'name': 'prefers-color-scheme', 'value': scheme}]})


def read_network(driver):
    """Return the URLs that Chromium requested since the last call, a list."""
    events = [json.loads(entry['message'])['message']
              for entry in driver.get_log('performance')]
    return [event['params']['request']['url'] for event in events
            if event['method'] == 'Network.requestWillBeSent']
