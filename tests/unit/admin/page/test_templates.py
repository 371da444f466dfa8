# SPDX-License-Identifier: Apache-2.0

"""The HTML of a page."""

import re
import subprocess
import sys

from lxml import html
import pytest

from nova_prio.admin.page import content
from nova_prio.admin.page import templates
from nova_prio.model import provider_rows
from tests import html_page
from tests.unit.admin.page import contents

HOSTILE = ['<script>alert(1)</script>', '"><img src=x onerror=alert(1)>',
           "' onmouseover='alert(1)", '</script><script>alert(1)</script>',
           '{{ 7 * 7 }}', '<!--', ']]>', '\u202eevil', 'a & b']


def elements(text):
    """Return the number of elements of each name in a page."""
    names = [element.tag for element in html.document_fromstring(text).iter()]
    return {name: names.count(name) for name in names}


@pytest.mark.parametrize('name', HOSTILE)
def test_hostile_names_are_text(name):
    def build(name):
        guests = [contents.guest(name, 'high', range(4), (), state=name),
                  contents.guest(name + '2', flavor=name)]
        host = contents.host(
            name, guests, aggregates=[name], problems=[name],
            facts=[(name, name)])
        steps = [content.PageStep([host], name, name, [
            content.RefusedServers([name], name, [name])])] * 2
        return templates.render(content.Page(
            title=name, steps=steps, data=[{name: name}], lead=[name],
            notes=[name], warnings=[name], flavor=name))

    text = build(name)
    assert elements(text) == elements(build('name'))
    # The data, and the script that the browser may run.
    assert text.count('<script') == 2
    assert [{name: name}] == html_page.read_data(text)
    host = html_page.read_hosts(text)[name]
    assert {name, name + '2'} == host.get_servers().keys()


def test_page_loads_nothing():
    text = templates.render(contents.page(contents.host()))
    links = re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)|@import', text)
    assert {first or second for first, second in links} == {
        'data:,', '#content', '#axis-0'}
    assert "default-src 'none'" in text.replace('&#39;', "'")


def test_rows_show_sold_and_remaining_vcpus():
    host = contents.host(rows={
        'high': provider_rows.Row(4, 8, 3),
        'low': provider_rows.Row(20, 16, 0),
        'ordinary': provider_rows.Row(0, 0, 0)})
    text = templates.render(contents.page(host))
    assert html_page.read_hosts(text)['mix1'].get_rows() == {
        'high': '3 left 4 of 8 sold', 'low': '0 left 20 of 16 sold, oversold',
        'ordinary': '0 left 0 of 0 sold'}
    # Half of the high row is sold, and all of the low row.
    assert re.findall(r'"bar-(?:sold|over)" width="([\d.]+)"', text) == [
        '50.0', '100', '0']


def test_flavor_shows_the_units_of_hosts_and_aggregates():
    shortage = '4 high vCPUs left, 8 needed'
    hosts = [contents.host('a', units=2),
             contents.host('b', units=0, shortage=shortage),
             contents.host('c', units=3, is_open=False)]
    name, = hosts[0].aggregates
    # Fewer than the sum: the hosts share a provider.
    step = content.PageStep(hosts, units={name: 4})
    text = templates.render(contents.page(
        *hosts, steps=[step], flavor='high-8'))
    found = html_page.read_hosts(text)
    assert '✓ 2 more high-8' in found['a'].text
    assert '✗ 0 more high-8: ' + shortage in found['b'].text
    assert 'not available' in found['c'].text
    assert 'more high-8' not in found['c'].text
    fits = re.findall(r'data-host="(\w)".*?data-fits="(\d)"', text)
    assert fits == [('a', '2'), ('b', '0'), ('c', '0')]
    aggregate, = html.document_fromstring(text).xpath(
        '//table[@class="aggregates"]/tbody/tr')
    # As "capacity show --by-aggregate" lists them.
    assert [aggregate[1].text, aggregate[-1].text] == ['3', '4']


@pytest.mark.parametrize('row, fits', [('high', '0'), ('ordinary', '2')])
def test_host_disabled_for_priority_takes_ordinary_servers(row, fits):
    host = contents.host('a', units=2, takes_priority=False)
    text = templates.render(contents.page(
        host, flavor='flavor', flavor_row=row))
    assert 'no priority servers' in html_page.read_hosts(text)['a'].text
    assert re.findall(r'data-(?:fits|high|low|ordinary)="(\d)"', text) == [
        fits, '0', '0', '8']


@pytest.mark.parametrize('mark, change', [
    ('✗ not available', {'is_open': False}),
    ('✗ no priority servers', {'takes_priority': False})])
def test_mark_has_the_only_problem_as_its_reason(mark, change):
    for problems, expected in ((['It is off.'], mark + ': It is off. high'),
                               (['It is off.', 'It is old.'],
                                mark + '⚠ 2 problems high')):
        text = templates.render(contents.page(
            contents.host('a', problems=problems, **change)))
        assert expected in html_page.read_hosts(text)['a'].text


def test_host_without_rows_says_so():
    text = templates.render(contents.page(contents.host('a', rows={})))
    assert ('no rows: another compute driver'
            in html_page.read_hosts(text)['a'].text)


def test_line_above_the_reasons_is_no_item():
    refusal = content.RefusedServers(
        ['db'], 'No host.', ['a: full'], 'None for 4:')
    step = content.PageStep([contents.host()], refusals=[refusal])
    text = templates.render(contents.page(contents.host(), steps=[step]))
    assert ['a: full'] == html.document_fromstring(text).xpath(
        '//*[@class="refusal"]//li/text()')
    assert 'None for 4:' in html_page.read_refusals(text, 0)[0]


def test_page_without_a_flavor_has_no_units():
    text = templates.render(contents.page(
        contents.host('a'), contents.host('b')))
    assert 'more' not in html_page.read_hosts(text)['a'].text
    assert 'id="fits"' not in text


def test_aggregate_sums_the_rows_of_its_hosts():
    step = content.PageStep([
        contents.host('a', aggregates=['x', 'y']),
        contents.host('b', aggregates=['x'])])
    assert step.aggregates['x'] == content.Sum(2, {
        'high': provider_rows.Row(8, 16, 8),
        'low': provider_rows.Row(16, 32, 16),
        'ordinary': provider_rows.Row(0, 16, 16)})
    assert step.aggregates['y'].rows == step.hosts[0].rows


@pytest.mark.parametrize('module', [
    'nova_prio.cmd.capacity', 'nova_prio.cmd.output_file',
    'nova_prio_scenario.play'])
def test_commands_import_jinja_only_for_a_page(module):
    code = 'import sys, %s; sys.exit("jinja2" in sys.modules)' % module
    assert 0 == subprocess.run([sys.executable, '-c', code]).returncode
