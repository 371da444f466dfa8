# SPDX-License-Identifier: Apache-2.0

"""Guests in huge and in small pages of a real host."""

import pathlib

import pytest

from tests.libvirt import cloud as clouds
from tests.libvirt import daemon

#: The pages of 2 MiB of the pool, and of a guest of 32 MB.
POOL, OF_GUEST = 32, 16
LOW = {'hw:cpu_priority': 'low'}
_PAGES = pathlib.Path('/sys/kernel/mm/hugepages/hugepages-2048kB')


def read_pages(name='nr_hugepages'):
    return int((_PAGES / name).read_text())


@pytest.fixture(scope='module')
def pool():
    """Add pages to the pool of this machine; return their former number."""
    before = read_pages()
    (_PAGES / 'nr_hugepages').write_text(str(before + POOL))
    try:
        assert before + POOL == read_pages(), (
            'The kernel has too little contiguous memory for %d pages of 2 '
            'MiB.' % POOL)
        yield before
    finally:
        (_PAGES / 'nr_hugepages').write_text(str(before))


@pytest.fixture(scope='module')
def cloud(pool, cpus):
    """A cloud whose host gives huge pages to QEMU."""
    with daemon.Host('pages1') as host:
        host.prepare()
        # libvirtd looks for the mount when it starts.
        host.run('mkdir', '/run/hugepages')
        host.run('mount', '-t', 'hugetlbfs', 'none', '/run/hugepages')
        host.restart_libvirtd()
        # libvirtd asks QEMU for its capabilities once, which takes long on a
        # busy machine. The probe of the partitions must not wait for that:
        # nova-compute does not start beside its guest.
        host.virsh('domcapabilities')
        with clouds.RealCloud.running(host, cpus) as found:
            yield found


def free_mb(cloud):
    """Return the free small pages in the report of the host."""
    return cloud.report().small_pages.free_mb


def test_libvirt_counts_the_pool_as_no_small_pages(cloud, pool):
    """If it did, the pages of 4 KiB would be all memory."""
    pool_mb = 2 * (pool + POOL)
    memory_mb = cloud.driver._host.get_memory_mb_total()
    small, huge = 0, 0
    for cell in cloud.driver._get_host_numa_topology().cells:
        for pages in cell.mempages:
            if pages.size_kb == 4:
                small += pages.total_kb / 1024
            elif pages.size_kb == 2048:
                huge += pages.total_kb / 1024
    assert pool_mb == huge
    # Nova and libvirt round each number.
    assert abs(memory_mb - pool_mb - small) <= 2
    reported = cloud.report().small_pages
    assert (4, memory_mb - pool_mb) == (reported.page_kb, reported.total_mb)


def test_guests_use_the_pages_that_are_counted(cloud, pool, idle_image):
    image = cloud.image(idle_image)
    cloud.update_host()
    free, before_mb = read_pages('free_hugepages'), free_mb(cloud)
    huge = cloud.boot(
        cloud.flavor(**LOW, **{'hw:mem_page_size': '2MB'}), image)
    assert free - OF_GUEST == read_pages('free_hugepages')
    assert before_mb == free_mb(cloud)
    small = cloud.boot(cloud.flavor(**LOW), image)
    assert free - OF_GUEST == read_pages('free_hugepages')
    assert before_mb - 32 == free_mb(cloud)
    # The next start of nova-compute keeps 40 MB for one more guest.
    cloud.flags(reserved_host_memory_mb=before_mb - 72)
    cloud.restart_compute()
    assert 40 == free_mb(cloud)
    flavor = cloud.flavor(**LOW)
    more = cloud.boot(flavor, image)
    refused = cloud._create_server(
        flavor_id=flavor, image_uuid=image, networks='none',
        expected_state='ERROR')
    large = cloud.boot(
        cloud.flavor(**LOW, **{'hw:mem_page_size': 'large'}), image)
    assert free - 2 * OF_GUEST == read_pages('free_hugepages')
    assert 8 == free_mb(cloud)
    for server in huge, small, more, refused, large:
        cloud._delete_server(server)
    assert free == read_pages('free_hugepages')
