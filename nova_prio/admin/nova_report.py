# SPDX-License-Identifier: Apache-2.0

"""Check all contracts with the installed Nova, and report the result."""

import typing

from nova_prio.admin import nova_check
from nova_prio.compat import contract
from nova_prio.compat import hooks

#: Exit statuses, as those of ``upgrade check``.
SUITS, UNTESTED, UNSUITABLE = range(3)

_NEXT_STEPS = {
    SUITS: 'You may roll the image out.',
    UNTESTED: 'Install a release of nova-prio that is tested with this Nova, '
              'or roll the image out to one host and check its log.',
    UNSUITABLE: 'Do not roll the image out; install a release of nova-prio '
                'that supports this Nova.'}


def list_contracts() -> tuple[contract.Contract, ...]:
    """Return the Contracts on interfaces and behaviour."""
    return (*contract.ALL, *nova_check.ALL)


def check_contract(relied_on: contract.Contract) -> str | None:
    """Return how the running Nova differs from a Contract, or None."""
    try:
        return relied_on.mismatch()
    # An entry point of a service turns StartRefused into SystemExit.
    except (contract.StartRefused, SystemExit):
        return '%s would refuse to start' % relied_on.service
    except Exception as error:
        return 'it cannot be tried: %s: %s' % (
            type(error).__name__, ' '.join(str(error).split()))


def check_nova() -> tuple[int, dict[str, typing.Any]]:
    """Check the installed Nova.

    :returns: (exit status, result: the fields of the JSON output)
    """
    # Read no files: the configuration in an image must not matter.
    hooks.register_options()([], project='nova', default_config_files=[],
                             default_config_dirs=[])
    contracts = list_contracts()
    findings = [
        {'service': each.service, 'contract': each.name, 'finding': mismatch}
        for each in contracts if (mismatch := check_contract(each))]
    release = contract.get_nova_release()
    is_tested = contract.is_tested(release)
    status = UNSUITABLE if findings else SUITS if is_tested else UNTESTED
    return status, {
        'nova_prio': contract.get_own_release(),
        'nova': release,
        'tested': is_tested,
        'tested_releases': list(contract.TESTED_RELEASES),
        'contracts': len(contracts),
        'findings': findings,
        'next': _NEXT_STEPS[status]}
