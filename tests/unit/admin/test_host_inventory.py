# SPDX-License-Identifier: Apache-2.0

import types
import weakref

from nova_prio.admin import host_inventory


class Page(list):
    """A list of records to which a weak reference is possible."""


def test_pages_are_read_one_after_the_other():
    pages = []

    def read_page(limit, marker):
        # Memory must not hold two pages at a time.
        assert not any(page() for page in pages)
        first = 0 if marker is None else marker + 1
        page = Page(types.SimpleNamespace(id=number)
                    for number in range(first, min(first + limit, 5)))
        pages.append(weakref.ref(page))
        return page

    assert [0, 1, 2, 3, 4] == [record.id for record in (
        host_inventory.iterate_pages(read_page, 'id', 2))]
    assert 4 == len(pages)
