# SPDX-License-Identifier: Apache-2.0

"""Render a page as HTML: one file, which loads no other."""

from __future__ import annotations

import base64
import hashlib
import typing

import jinja2
from nova.virt import hardware

from nova_prio.admin.page import cpu_map
from nova_prio.admin.page import gain_page

if typing.TYPE_CHECKING:
    from nova_prio.admin.page import content

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__, ''),
    # Users choose the names of servers.
    autoescape=True, undefined=jinja2.StrictUndefined,
    trim_blocks=True, lstrip_blocks=True)
#: Width and height of a CPU on the map, width of the names of the lanes, and
#: height of the numbers above, in pixels.
_GEOMETRY = {'cell': 18, 'lane': 20, 'names': 58, 'numbers': 14}


def render(page: content.Page) -> str:
    """Return the HTML of a page of hosts."""
    script = _read('page.js')
    max_cpus = 0
    for step in page.steps:
        for host in step.hosts:
            max_cpus = max(max_cpus, cpu_map.count_cpus(host))
    # The template calls functions of the module cpu_map.
    return _render(
        'page.html', script, page=page, cpu_map=cpu_map,
        format_cpus=hardware.format_cpu_spec, geometry=_GEOMETRY,
        max_cpus=max_cpus)


def render_gain(page: gain_page.GainPage) -> str:
    """Return the HTML of a page of ``nova-prio capacity gain``."""
    # The template calls functions of the module gain_page.
    return _render('gain.html', script='', page=page, gain_page=gain_page)


def _render(template: str, script: str, **values: typing.Any) -> str:
    """Return the HTML of a template.

    The page names the hashes of its style and its script, and the browser runs
    no other. So a script in a value, such as the name of a server, would not
    run even if the template failed to escape it.

    :param script: the only script that the browser may run
    :param values: dict, name -> value in the template
    """
    style = _read('page.css')
    policy = ("default-src 'none'; img-src data:; style-src %s; script-src %s"
              % (_hash(style), _hash(script)))
    return _ENVIRONMENT.get_template(template).render(
        style=style, script=script, policy=policy, **values)


def _read(name: str) -> str:
    """Return the text of a file beside the templates, such as 'page.js'."""
    assert _ENVIRONMENT.loader is not None
    text, _, _ = _ENVIRONMENT.loader.get_source(_ENVIRONMENT, name)
    return text


def _hash(text: str) -> str:
    """Return the source of a Content-Security-Policy that allows a text."""
    return "'sha256-%s'" % base64.b64encode(
        hashlib.sha256(text.encode()).digest()).decode()
