# SPDX-License-Identifier: Apache-2.0

"""The pages of ``capacity show`` and ``scenario play`` in Chromium.

The fixture ``browser`` fails a test that writes an error to the console.
"""

import dataclasses
import json
import re
import time

import pytest
from selenium.webdriver.common import by
from selenium.webdriver.common import keys
from selenium.webdriver.support import ui

from nova_prio.admin.page import content
from nova_prio.model import provider_rows
from tests.browser import chromium
from tests.browser import pages

SCHEMES = ('light', 'dark')
# Contrast of each element with text against the backgrounds behind it, and of
# each text on the map against its box.
CONTRASTS = """
const parse = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (color) => {
  const [r, g, b] = color.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (first, second) => {
  const [high, low] = [luminance(first), luminance(second)].sort(
    (a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const background = (element) => {
  for (; element; element = element.parentElement) {
    const color = parse(getComputedStyle(element).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = {};
for (const element of document.querySelectorAll("body *")) {
  const hasText = [...element.childNodes].some(
    (node) => node.nodeType === 3 && node.data.trim());
  if (!hasText || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const isMap = element instanceof SVGTextElement;
  const box = isMap && element.parentElement.querySelector(
    ":scope.box > rect");
  const front = parse(isMap ? style.fill : style.color).slice(0, 3);
  const back = box ? parse(getComputedStyle(box).fill).slice(0, 3)
    : background(element);
  const name = `${element.tagName} ${element.parentElement.className.baseVal
    ?? ""} ${element.className.baseVal ?? element.className}`;
  found[name] = Math.min(found[name] ?? 99, contrast(front, back));
}
return found;
"""


def find(browser, selector):
    """Return the elements of a CSS selector that are shown."""
    return [element for element in browser.find_elements(
        by.By.CSS_SELECTOR, selector) if element.is_displayed()]


def get_hosts(browser):
    """Return the names of the hosts that are shown."""
    return [host.get_attribute('data-host') for host in find(browser, '.host')]


def search(browser, text):
    """Write a text into the search field."""
    field = browser.find_element(by.By.ID, 'search')
    field.clear()
    field.send_keys(text)


def read_map(browser):
    """Return dict, lane -> CPU -> text, of the only host that is shown."""
    found = {}
    for box in find(browser, '.box'):
        first, width = (int(box.get_attribute('data-' + name))
                        for name in ('first', 'width'))
        text = box.find_element(by.By.TAG_NAME, 'text').text
        found.setdefault(box.get_attribute('data-lane'), {}).update(
            dict.fromkeys(range(first, first + width), text))
    return found


def test_map_is_that_of_the_json(seed, seed_json):
    codes = {row.get_attribute('data-server'):
             row.find_element(by.By.TAG_NAME, 'td').text
             for row in find(seed, '[data-server]')}
    servers = [server for server in seed_json['servers'] if server['host']]
    assert codes.keys() == {server['name'] for server in servers}
    high, low = ([server for server in servers
                  if server['priority'] == priority]
                 for priority in ('high', 'low'))
    found = read_map(seed)
    assert found['pinned'] == {cpu: codes[server['name']] for server in high
                               for cpu, in server['cpus']}
    assert found['low'] == {cpu: '~%d' % len(low) for cpu in low[0]['cpus']}
    rows = {row: '%d of %d sold' % (numbers['used'], numbers['sellable'])
            for row, numbers in seed_json['hosts'][0]['classes'].items()}
    assert rows == dict(zip(rows, (
        element.text for element in find(seed, '.host .row-sold'))))
    assert seed_json == json.loads(seed.find_element(
        by.By.ID, 'data').get_attribute('textContent'))


def test_slider_moves_with_keys(seed):
    slider = seed.find_element(by.By.ID, 'slider')
    slider.send_keys(keys.Keys.HOME)
    assert [] == find(seed, '[data-server]')
    assert 'before the first step' in slider.get_attribute('aria-valuetext')
    slider.send_keys(keys.Keys.ARROW_RIGHT * 3)
    assert 'create high-3' in slider.get_attribute('aria-valuetext')
    assert 'create high-3' in seed.find_element(by.By.ID, 'now').text
    refusal, = find(seed, '.refusal')
    assert '4 PCPU needed, 0 free of 8' in refusal.text
    assert ['high-1', 'high-2'] == [row.get_attribute('data-server')
                                    for row in find(seed, '[data-server]')]
    current, = find(seed, '[aria-current=step]')
    assert 'create high-3' in current.text
    slider.send_keys(keys.Keys.END)
    assert 6 == len(find(seed, '[data-server]'))


def test_buttons_and_list_select_a_step(seed):
    seed.find_element(by.By.ID, 'previous').click()
    assert find(seed, 'h2')[1].text.startswith('Step 4 of 5')
    find(seed, '[data-step="0"]')[0].click()
    assert find(seed, 'h2')[1].text.startswith('Step 0 of 5')
    assert not seed.find_element(by.By.ID, 'previous').is_enabled()


def test_hosts_stay_closed_when_the_step_changes(seed):
    seed.find_element(by.By.ID, 'collapse').click()
    seed.find_element(by.By.ID, 'previous').click()
    assert [] == find(seed, '.map')


def test_search_finds_the_step_that_refused_a_server(seed):
    search(seed, 'high-3')
    step, current = find(seed, '.steps li')
    assert '✗ refused' in step.text
    # The current step stays, and the steps keep their numbers.
    assert 'low-5' in current.text
    assert [3, 5] == [item.get_property('value') for item in (step, current)]
    step.find_element(by.By.TAG_NAME, 'a').click()
    refusal, = find(seed, '.refusal')
    assert 'Refused: high-3' in refusal.text
    assert ['seed'] == get_hosts(seed)


def test_search_for_an_unknown_name_finds_no_step(seed):
    search(seed, 'nothing')
    current, = find(seed, '.steps li')
    assert 'low-5' in current.text
    assert [] == get_hosts(seed)
    assert 'No host matches.' == seed.find_element(by.By.ID, 'shown').text


def test_search_finds_hosts_aggregates_and_servers(fleet):
    for text, hosts in (('compute-17', ['compute-17']),
                        ('DB-7-1', ['compute-7']),
                        ('00000013-0000', ['compute-19']),
                        ('rack-3 db-23-1', ['compute-23']),
                        ('rack-3', ['compute-3', 'compute-13', 'compute-23']),
                        ('nothing', [])):
        search(fleet, text)
        assert hosts == get_hosts(fleet), text
        assert fleet.find_element(by.By.ID, 'shown').text == (
            '%d of 30 hosts shown' % len(hosts) if hosts else
            'No host matches.')


def test_search_opens_the_only_host_and_marks_the_server(fleet):
    search(fleet, 'db-7-1')
    row, = find(fleet, '.hit')
    assert 'db-7-1' == row.get_attribute('data-server')
    assert ' 4-7 ' in row.text
    assert find(fleet, '.map')
    search(fleet, '')
    assert [] == find(fleet, '.hit')


def test_aggregate_button_searches_the_aggregate(fleet):
    find(fleet, '.sums summary')[0].click()
    chromium.set_screen(fleet, height=400)
    button, = find(fleet, '[data-find="rack-9"]')
    button.click()
    assert ['compute-9', 'compute-19', 'compute-29'] == get_hosts(fleet)
    top = fleet.execute_script(
        'return document.activeElement.getBoundingClientRect().top')
    assert 0 <= top < 300
    assert fleet.switch_to.active_element.text.startswith('compute-9')


def test_hosts_with_room_are_found(fleet):
    fleet.find_element(by.By.ID, 'fits').click()
    # Hosts without a high server have 8 dedicated CPUs left. compute-4 and
    # compute-8 have them too, but are not available for high servers.
    expected = ['compute-%d' % number for number in range(0, 30, 4)]
    expected.remove('compute-4')
    expected.remove('compute-8')
    assert expected == get_hosts(fleet)
    fleet.find_element(by.By.ID, 'fits').click()
    least = fleet.find_element(by.By.ID, 'least')
    least.clear()
    least.send_keys('5')
    assert expected == get_hosts(fleet)
    ui.Select(fleet.find_element(by.By.ID, 'row')).select_by_visible_text(
        'low')
    # Of 16 sellable vCPUs, web has 2, and each of 1 to 3 batch servers 4.
    assert ['compute-%d' % number for number in range(30)
            if number % 3 < 2 and number not in (4, 8)] == get_hosts(fleet)
    least.clear()
    least.send_keys('1')
    ui.Select(fleet.find_element(by.By.ID, 'row')).select_by_visible_text(
        'ordinary')
    # compute-8 still takes ordinary servers.
    assert ['compute-%d' % number for number in range(30)
            if number != 4] == get_hosts(fleet)


def test_keyboard_opens_a_host(fleet):
    summary = find(fleet, '.host > summary')[0]
    summary.send_keys(keys.Keys.ENTER)
    assert find(fleet, '.map')
    summary.send_keys(keys.Keys.SPACE)
    assert [] == find(fleet, '.map')


def test_table_tells_who_floats_on_a_cpu(fleet):
    search(fleet, 'compute-5')
    dedicated, shared = (row.text for row in find(fleet, '.cpus tbody tr'))
    assert re.search(r'^0-7 dedicated A db-5-0 on 0-3 .*batch-5-2', dedicated)
    assert re.search(r'^8-11 shared – .*batch-5-2, web-5-0', shared)


@pytest.mark.parametrize('scheme', SCHEMES)
@pytest.mark.parametrize('name', ['fleet', 'seed'])
def test_text_has_the_contrast_of_wcag_aa(name, scheme, request):
    browser = request.getfixturevalue(name)
    chromium.set_screen(browser, scheme=scheme)
    if name == 'seed':
        find(browser, '[data-step="3"]')[0].click()
    else:
        find(browser, '.host > summary')[5].click()
        search(browser, 'compute-5')
    contrasts = browser.execute_script(CONTRASTS)
    assert len(contrasts) > 15
    assert {} == {name: ratio for name, ratio in contrasts.items()
                  if ratio < 4.5}


def test_schemes_differ(fleet):
    colors = set()
    for scheme in SCHEMES:
        chromium.set_screen(fleet, scheme=scheme)
        colors.add(fleet.find_element(
            by.By.TAG_NAME, 'body').value_of_css_property('background-color'))
    assert 2 == len(colors)


@pytest.mark.parametrize('name', ['fleet', 'seed'])
def test_narrow_screen_needs_no_horizontal_scrolling(name, request):
    browser = request.getfixturevalue(name)
    chromium.set_screen(browser, width=400)
    browser.find_element(by.By.ID, 'expand').click()
    assert 400 == browser.execute_script(
        'return document.documentElement.scrollWidth')
    boxes = find(browser, '.map')
    assert boxes and all(
        box.rect['x'] + box.rect['width'] <= 400 for box in boxes)


def open_uneven_hosts(open_page):
    """Open a page of hosts of 16 CPUs with numbers of different lengths."""
    rows = {name: provider_rows.Row(4, 8, 4)
            for name in ('high', 'low', 'ordinary')}
    hosts = [dataclasses.replace(
        pages.make_host(number, 16), rows={
            **rows, 'low': provider_rows.Row(number, 16000, left)})
        for number, left in enumerate((0, 15000))]
    open_page(content.Page(
        title='Capacity', data=[], steps=[content.PageStep(hosts)]))


@pytest.mark.parametrize('width', [1280, 400, 360])
def test_bars_of_a_column_have_equal_lengths(open_page, browser, width):
    chromium.set_screen(browser, width=width)
    open_uneven_hosts(open_page)
    bars = [bar.rect['width'] for bar in find(browser, '.host .bar')]
    assert bars[:3] == bars[3:]
    if width < 500:
        assert min(bars) > 0.8 * width
    edges = {bar.value_of_css_property('border-right-width')
             for bar in find(browser, '.bar')}
    assert {'1px'} == edges


@pytest.mark.parametrize('width', [1280, 400, 360])
def test_map_of_16_cpus_fits_its_host(open_page, browser, width):
    chromium.set_screen(browser, width=width)
    open_uneven_hosts(open_page)
    right = max(box.rect['x'] + box.rect['width']
                for box in find(browser, '.box'))
    host, cpu_map = (browser.find_element(by.By.CSS_SELECTOR, selector).rect
                     for selector in ('.host', '.map'))
    assert right <= cpu_map['x'] + cpu_map['width'] <= (
        host['x'] + host['width'])


def test_page_loads_nothing(seed):
    chromium.read_network(seed)
    seed.refresh()
    seed.find_element(by.By.ID, 'expand').click()
    assert {seed.current_url} == {url for url in chromium.read_network(
        seed) if not url.startswith('data:')}


def test_page_is_complete_without_its_script(seed):
    seed.execute_cdp_cmd(
        'Emulation.setScriptExecutionDisabled', {'value': True})
    try:
        seed.refresh()
        assert 6 == len(find(seed, '.step'))
        assert 2 == len(find(seed, '.refusal'))
        assert [] == find(seed, '.controls')
    finally:
        seed.execute_cdp_cmd(
            'Emulation.setScriptExecutionDisabled', {'value': False})


def test_hostile_names_run_no_script(open_page, browser):
    name = '</script><script>document.title = "bad"</script><img src=x onerror'
    name += '=\'document.title = "bad"\'>'
    host = pages.make_host(1)
    open_page(content.Page(title='Capacity', data=[name], steps=[
        content.PageStep([content.HostSection(**{
            **vars(host), 'name': name, 'aggregates': [name],
            'guests': [content.GuestOnPage(**{
                **vars(host.guests[0]), 'name': name})]})])]))
    assert 'Capacity' == browser.title
    assert [name] == get_hosts(browser)


def test_thousand_hosts_are_searched_at_once(open_page, browser):
    open_page(content.Page(
        title='Capacity', data=[], flavor='high-8', steps=[pages.make_step(
            [pages.make_host(number, 96) for number in range(1000)])]))
    started_at = time.monotonic()
    search(browser, 'db-777-0')
    assert ['compute-777'] == [
        host.get_attribute('data-host') for host in browser.find_elements(
            by.By.CSS_SELECTOR, '.host:not([hidden])')]
    assert time.monotonic() - started_at < 5
