# SPDX-License-Identifier: Apache-2.0

"""The page of ``nova-prio capacity gain``."""

from lxml import html

from nova_prio.admin.page import gain_page
from nova_prio.admin.page import templates


def make_page(text='text'):
    plot = gain_page.Plot(text, [
        gain_page.Line(text, [(0, 0), (50, 10)]),
        gain_page.Line(text, [(100, 20)])])
    return html.document_fromstring(templates.render_gain(gain_page.GainPage(
        title=text, lead=[text], plots=[plot], columns=[text], rows=[[text]])))


def test_lines_are_on_the_scale():
    first, second = [line.get('points') for line in make_page().iter(
        'polyline')]
    # From (LEFT, TOP + HEIGHT) to the middle of the width and the height.
    assert '60.0,252.0 310.0,132.0' == first
    assert '560.0,12.0' == second


def test_hostile_names_are_text():
    """The operator may give any name as --low."""
    def tags(page):
        return [element.tag for element in page.iter()]

    hostile = make_page('</title><script>alert(1)</script>')
    assert tags(make_page()) == tags(hostile)
    assert not list(hostile.iter('script'))
