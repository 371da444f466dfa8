# SPDX-License-Identifier: Apache-2.0

"""Faults that are planted in the package: the explorer must find each.

Each function returns the replacement of ``NAMES`` for a fault: a dict, full
name of a function or method -> its replacement.
"""

import contextlib

from nova_prio.model import leases
from nova_prio.objects import lease_end
from tests.functional import double_pins

_HOST = 'nova_prio.compute.priority_host.PriorityHost.'
_LEASES = 'nova_prio.model.leases.Leases.'
_TRACKER = 'nova_prio.compute.resource_tracker.'
_GATE = 'nova_prio.compute.start_gate.StartGate.'
_WORKAROUNDS = 'nova_prio.compat.workarounds.'
_stock_begin = leases.Leases.begin


def _do_nothing(*args, **kwargs):
    """Leave a step out."""


def _find_ended_at_once(host, context, name):
    """End each lease that the recount has not counted."""
    for uuid, each in host.leases.list_all():
        if not each.is_counted:
            double_pins.let_go(host.leases, uuid)
            host.leases.end(uuid, each)


@contextlib.contextmanager
def _give_back_without_evidence(host, uuid):
    """Do not ask libvirt for the guest."""
    sets = host.leases.get(uuid)
    host._evidence[uuid] = (), sets, None
    try:
        yield
    finally:
        host._evidence.pop(uuid, None)


def _begin_anyway(host_leases, uuid, new):
    """Lease CPUs that another instance has."""
    host_leases._sets.setdefault(uuid, []).append(new)
    return {}


def _find_leased_by_none(host_leases, but=None):
    return frozenset()


#: Name of a fault -> functions that it replaces, and their replacements.
MUTANTS = {
    'a recount ends what it does not count': {
        _HOST + 'find_ended': _find_ended_at_once},
    'evidence is ignored': {
        'nova_prio.objects.lease_end.read_need':
            lambda *args: lease_end.Need.OVER},
    'the call of a claim is not noted': {
        _LEASES + 'begin_call': _do_nothing,
        'nova_prio.objects.lease_end.read_need':
            lambda *args: lease_end.Need.UNNEEDED},
    'a start is not noted': {
        _LEASES + 'begin_start': _do_nothing,
        _LEASES + 'end_start': _do_nothing},
    'libvirt is not asked for the guest': {
        _HOST + 'giving_back': _give_back_without_evidence},
    'a CPU is leased twice, and the gate is off': {
        _LEASES + 'begin': _begin_anyway,
        _LEASES + 'find_cpus': _find_leased_by_none,
        _GATE + 'check': _do_nothing},
    'reverts do not return after a restart': {
        _WORKAROUNDS + 'find_returning': lambda *args: ()},
    'the own CPUs are not restored': {
        _WORKAROUNDS + 'restore_own_cpus': _do_nothing},
    'each migration counts': {
        _WORKAROUNDS + 'may_count': lambda *args: True},
    'leases of guests are not read at the start': {
        _HOST + 'lease_cpus_of_guests': _do_nothing},
    'leases never end': {
        _HOST + 'find_ended': lambda *args: False,
        _HOST + 'end_lease': lambda *args: False},
    'uncounted leases are not sold': {
        _HOST + '_list_uncounted': lambda *args: []},
}
