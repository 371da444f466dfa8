# SPDX-License-Identifier: Apache-2.0

"""Make the images of the documentation: ``screenshots DIRECTORY``.

Run it as ``.tox/browser/bin/python -m tests.browser.screenshots``.
"""

import pathlib
import sys
import tempfile

from selenium.webdriver.common import by

from nova_prio.admin.page import content
from nova_prio.admin.page import templates
from tests.browser import chromium
from tests.browser import pages


def shoot(driver, path, image, height, selectors):
    """Write an image of a page.

    :param height: of the image in pixels
    :param selectors: of the elements to click before
    """
    chromium.set_screen(driver, width=1040, height=height)
    driver.get(path.as_uri())
    for selector in selectors:
        driver.find_element(by.By.CSS_SELECTOR, selector).click()
    driver.execute_script('document.activeElement.blur(); scrollTo(0, 0)')
    driver.save_screenshot(str(image))


def main(directory):
    """Write the images to a directory."""
    directory = pathlib.Path(directory)
    with tempfile.TemporaryDirectory() as temporary, (
            chromium.run()) as driver:
        seed, _ = pages.play_seed(pathlib.Path(temporary))
        shoot(driver, seed, directory / 'scenario-page.png', 720,
              ['[data-step="3"]'])
        path = pathlib.Path(temporary) / 'capacity.html'
        path.write_text(templates.render(content.Page(
            title='CPU capacity of priority hosts', data=[], flavor='high-8',
            lead=['5 of 5 hosts of the cloud.'], steps=[pages.make_step(
                [pages.make_host(number, 24) for number in range(1, 6)])])),
            'utf-8')
        shoot(driver, path, directory / 'capacity-page.png', 860,
              ['.sums summary', '[data-host=compute-2] summary'])


if __name__ == '__main__':
    main(sys.argv[1])
