# SPDX-License-Identifier: Apache-2.0

"""The host and the servers that ``capacity gain --host`` is given.

Each error is one sentence: the value given, and the values allowed.
"""

import contextlib
import decimal

from osc_lib import exceptions
from oslo_utils import strutils
import yaml

from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.model import admission
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain
from nova_prio.model.planner import resources

#: Keys of --host whose values are sizes, and those whose values are numbers.
_SIZES = ('memory', 'disk', 'reserved', 'small-pages')
_NUMBERS = ('cpus', 'cells')
#: Keys of a size of servers, with the smallest value.
_LEAST = {'vcpus': 1, 'memory_mb': 1, 'share': 0, 'disk_gb': 0}
_REQUIRED = {'vcpus', 'memory_mb', 'share'}
_MB, _GB = 1024 ** 2, 1024 ** 3
#: Bytes of memory of a host without the key, more than any host has.
_ANY_MEMORY = 2 ** 60


def parse_host(text, required):
    """Return the empty ``host_fit.HostFit`` that --host describes.

    All its CPUs are shared.

    :param text: keys and values, such as ``cpus=128,memory=512G``
    :param required: tuple of the keys that must be given
    :raises CommandError: if a key or a value is not allowed
    """
    given = {}
    for part in text.split(','):
        key, _, value = part.partition('=')
        if key in given or key not in _NUMBERS + _SIZES:
            report.refuse('A key of --host', key, '%s, each once' % ', '.join(
                sorted(_NUMBERS + _SIZES)))
        if key in _SIZES:
            given[key] = _parse_size(key, value)
        elif value.isdecimal() and 1 <= int(value) <= cpu_capacity.MOST_CPUS:
            given[key] = int(value)
        else:
            report.refuse(
                '%s of --host' % key, value,
                'whole numbers from 1 to %d' % cpu_capacity.MOST_CPUS)
    for key in required:
        if key not in given:
            raise exceptions.CommandError(
                "--host is '%s', without the key %s; required are %s." % (
                    text, key, ' and '.join(required)))
    cells = given.get('cells', 1)
    if given['cpus'] % cells:
        report.refuse('cells of --host', cells,
                      'divisors of cpus, %d' % given['cpus'])
    # Without servers, the memory is not required, and must not be a limit.
    memory_mb = given.get('memory', _ANY_MEMORY) // _MB
    # By default, the host has no huge pages.
    small_pages_mb = memory_mb
    if 'small-pages' in given:
        small_pages_mb = given['small-pages'] // _MB
    usable_mb = small_pages_mb - given.get('reserved', 0) // _MB
    if not 0 < usable_mb <= memory_mb:
        raise exceptions.CommandError(
            '--host leaves %d MB of %d MB for servers without huge pages; '
            'small-pages must be at most memory, and more than reserved.'
            % (usable_mb, memory_mb))
    disk_gb = None
    if 'disk' in given:
        disk_gb = given['disk'] // _GB
    return gain.make_host(
        cpus=given['cpus'], cells=cells, memory_mb=memory_mb,
        usable_mb=usable_mb, disk_gb=disk_gb)


def _parse_size(key, value):
    """Return the bytes of a size such as 512G.

    :param key: key of --host, for the error
    :raises CommandError: if the text is no such size
    """
    with contextlib.suppress(ValueError):
        if value.endswith(('M', 'G', 'T')) and not value.startswith('-'):
            return strutils.string_to_bytes(
                value + 'B', unit_system='IEC', return_int=True)
    report.refuse('%s of --host' % key, value,
                  'numbers with M, G or T, such as 512G')


def load_demand(path):
    """Return the servers of a file, once as high and once as low priority.

    The file does not say how many servers have which priority. The caller
    changes the numbers to try several shares of high priority.

    :param path: a YAML file; ``examples/demand`` has examples
    :returns: list of ``first_fit.Kind``, each a number of equal servers
    :raises CommandError: if the file cannot be read, or breaks a rule
    """
    with output_file.report_errors('--demand', path, 'cannot be read'):
        with open(path, encoding='utf-8') as file:
            text = file.read()
    try:
        found = yaml.safe_load(text)
        return _read_demand(found)
    except (yaml.YAMLError, _BadDemand) as error:
        raise exceptions.CommandError("--demand is '%s': %s." % (
            path, ' '.join(str(error).split()))) from error


class _BadDemand(ValueError):
    """A file of servers breaks a rule; the text has no period."""


def _read_demand(found):
    """Return the servers of a parsed file, as :func:`load_demand` does.

    :param found: the content of the file, of any type
    :returns: list of ``first_fit.Kind``, each a number of equal servers
    :raises _BadDemand: if the content breaks a rule of the file
    """
    if not isinstance(found, dict) or found.keys() - {'description'} != {
            'servers', 'sizes'}:
        raise _BadDemand('its keys must be servers and sizes, and may be '
                         'description')
    servers, sizes = found['servers'], found['sizes']
    if not _is_whole(servers, 0):
        raise _BadDemand("servers is '%s'; allowed are whole numbers from 0 "
                         'on' % servers)
    if not isinstance(sizes, list):
        raise _BadDemand('sizes must be a list')
    # The share of each size in percent.
    percents = []
    for size in sizes:
        _check_size(size)
        # A Decimal of the text is exact: 0.1 and 99.9 add up to 100.
        percents.append(decimal.Decimal(str(size['share'])))
    if servers and sum(percents) != 100:
        raise _BadDemand('the shares of the sizes add up to %s; they must add '
                         'up to 100' % sum(percents))
    numbers = gain.round_to_sum(
        [servers * percent / 100 for percent in percents], servers)
    kinds = []
    for size, number in zip(sizes, numbers):
        if not number:
            continue
        # The file does not say how many servers have which priority. So count
        # each once with each priority: the caller changes the numbers to try
        # several shares.
        for priority in cpu_capacity.PRIORITIES:
            kinds.append(first_fit.Kind(_make_needs(priority, size), number))
    return kinds


def _check_size(size):
    """Raise _BadDemand if a size of servers breaks a rule of the file.

    :param size: an item of the list ``sizes`` in the file, of any type
    """
    # _LEAST has the smallest value of each key that is allowed.
    if (not isinstance(size, dict) or _REQUIRED - size.keys() or
            size.keys() - _LEAST.keys()):
        raise _BadDemand("a size is '%s'; its keys must be vcpus, memory_mb "
                         'and share, and may be disk_gb' % size)
    for key, value in size.items():
        if key != 'share' and not _is_whole(value, _LEAST[key]):
            raise _BadDemand("%s of a size is '%s'; allowed are whole numbers "
                             'from %d on' % (key, value, _LEAST[key]))
    share = size['share']
    if type(share) not in (int, float) or not 0 <= share <= 100:
        raise _BadDemand("share of a size is '%s'; allowed are numbers from 0 "
                         'to 100' % share)


def _is_whole(value, least):
    """Return whether a value is a whole number that is not too small."""
    return type(value) is int and value >= least


def _make_needs(priority, size):
    """Return the ``resources.Needs`` of a server.

    :param priority: high, all vCPUs are pinned, or low, none is
    :param size: dict, key of a size in the file -> number
    """
    vcpus, memory_mb = size['vcpus'], size['memory_mb']
    is_pinned = priority == cpu_capacity.HIGH
    dedicated = vcpus if is_pinned else 0
    demand = cpu_capacity.Demand(
        priority, dedicated=dedicated, shared=vcpus - dedicated)
    # Rows are the numbers of vCPUs that a host may sell: pinned ones, all
    # others, and others without low priority. A server may count in several.
    rows = cpu_capacity.calculate_needed_rows(demand)
    cells = ()
    if is_pinned:
        # Without hw:numa_nodes, Nova gives a pinned server one NUMA node.
        cells = (resources.GuestCell(rows, memory_mb),)
    # All memory is in one part, which asks for no page size.
    memory_parts = ((None, memory_mb),)
    request = admission.Request(
        demand=demand, priority=priority, needed_rows=rows, vcpus=vcpus,
        memory_mb=memory_mb, memory_parts=memory_parts,
        wants_whole_cores=False)
    return resources.Needs(
        request, disk_gb=size.get('disk_gb', 0), cells=cells)
