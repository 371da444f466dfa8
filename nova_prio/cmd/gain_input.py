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
from nova_prio.model import capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain
from nova_prio.model.planner import resources

#: Keys of --host whose values are sizes, and those whose values are numbers.
_SIZES = ('memory', 'disk', 'reserved', 'small-pages')
_NUMBERS = ('cpus', 'cells')
#: Keys of a size of servers, with the smallest value; the first are required.
_LEAST = {'vcpus': 1, 'memory_mb': 1, 'share': 0, 'disk_gb': 0}
_MB, _GB = 1024 ** 2, 1024 ** 3
#: Memory of a host without the key, which is not used without servers.
_ANY_MEMORY = 2 ** 60


def parse_host(text, required):
    """Return the empty ``host_fit.HostFit`` that --host describes.

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
        elif value.isdecimal() and 1 <= int(value) <= capacity.MOST_CPUS:
            given[key] = int(value)
        else:
            report.refuse('%s of --host' % key, value,
                          'whole numbers from 1 to %d' % capacity.MOST_CPUS)
    for key in required:
        if key not in given:
            raise exceptions.CommandError(
                "--host is '%s', without the key %s; required are %s." % (
                    text, key, ' and '.join(required)))
    cells = given.get('cells', 1)
    if given['cpus'] % cells:
        report.refuse('cells of --host', cells,
                      'divisors of cpus, %d' % given['cpus'])
    memory_mb = given.get('memory', _ANY_MEMORY) // _MB
    small_mb = given.get('small-pages', memory_mb * _MB) // _MB
    usable_mb = small_mb - given.get('reserved', 0) // _MB
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
    """Return the bytes of a size such as 512G."""
    with contextlib.suppress(ValueError):
        if value.endswith(('M', 'G', 'T')):
            return strutils.string_to_bytes(
                value + 'B', unit_system='IEC', return_int=True)
    report.refuse('%s of --host' % key, value,
                  'numbers with M, G or T, such as 512G')


def load_demand(path):
    """Return the servers of a file, once as high and once as low priority.

    :param path: a YAML file; ``examples/demand`` has examples
    :returns: list of ``first_fit.Kind``
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
    """Return the servers of a parsed file, a list of ``first_fit.Kind``."""
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
    shares = [_check_size(size) for size in sizes]
    if servers and sum(shares) != 100:
        raise _BadDemand('the shares of the sizes add up to %s; they must add '
                         'up to 100' % sum(shares))
    kinds = []
    for size, share in zip(sizes, shares):
        for priority in capacity.PRIORITIES:
            kinds.append(first_fit.Kind(
                _make_needs(priority, size),
                round(servers * share / 100)))
    return [kind for kind in kinds if kind.number]


def _check_size(size):
    """Return the share of a size as a Decimal, or raise _BadDemand."""
    if not isinstance(size, dict) or not (
            set(_LEAST) - {'disk_gb'} <= size.keys() <= set(_LEAST)):
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
    return decimal.Decimal(str(share))


def _is_whole(value, least):
    """Return whether a value is a whole number that is not too small."""
    return type(value) is int and value >= least


def _make_needs(priority, size):
    """Return the ``resources.Needs`` of a server.

    :param size: dict, as in the file
    """
    dedicated, shared = 0, size['vcpus']
    if priority == capacity.HIGH:
        dedicated, shared = shared, 0
    demand = capacity.Demand(priority, dedicated=dedicated, shared=shared)
    rows = capacity.calculate_needed_rows(demand)
    cells = ()
    if dedicated:
        # As Nova places a pinned server without hw:numa_nodes.
        cells = (resources.GuestCell(rows, size['memory_mb']),)
    request = admission.Request(
        demand=demand, priority=priority, needed_rows=rows,
        vcpus=size['vcpus'], memory_mb=size['memory_mb'],
        memory_parts=((None, size['memory_mb']),), wants_whole_cores=False)
    return resources.Needs(
        request, disk_gb=size.get('disk_gb', 0), cells=cells)
