# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status``: is a host configured for priorities?

``upgrade check`` reads the configuration of the service that runs where it is
called, and, where that names Nova's databases, the host aggregates. It changes
nothing. Services refuse to start with what it calls a failure, or would place
instances wrongly. ``nova check`` looks at Nova alone.
"""

import argparse
import functools
import logging
import sys

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
from stevedore import extension

from nova_prio.admin import aggregate_checks
from nova_prio.admin import config_files
from nova_prio.api import config_checks as of_api
from nova_prio.cmd import host
from nova_prio.cmd import nova_check
from nova_prio.compat import contract
from nova_prio.compat import hooks
from nova_prio.scheduler import config_checks as of_scheduler
from nova_prio.virt import driver_alias

DRIVER = driver_alias.DRIVER
OUR_FILTERS = 'nova_prio.scheduler.filters.'
OUR_WEIGHERS = 'nova_prio.scheduler.weights.'
PLUGIN = 'nova_prio'
VALIDATORS, PLUGINS = 'nova.api.extra_spec_validators', 'os_vif'
#: Options whose values are names that Nova looks up as they are.
NAMES = ((None, 'compute_driver'), ('filter_scheduler', 'available_filters'),
         ('filter_scheduler', 'enabled_filters'),
         ('filter_scheduler', 'weight_classes'))

#: Exit status of oslo.upgradecheck where a check itself does not work.
UNUSABLE = 255
SUCCESS, WARNING, FAILURE = (
    upgradecheck.Code.SUCCESS, upgradecheck.Code.WARNING,
    upgradecheck.Code.FAILURE)


def _all(code, sentences):
    return ((code, sentence) for sentence in sentences)


def _missing(namespace, consequence):
    """Yield a failure where an entry point of ours does not load."""
    # Of a plug-in that is not ours, the service tells.
    if PLUGIN not in extension.ExtensionManager(
            namespace, on_load_failure_callback=lambda *_: None).names():
        yield FAILURE, (
            "The entry point '%s' of '%s' is missing, without which %s; "
            'install nova-prio again.' % (PLUGIN, namespace, consequence))


def _check(service=None):
    """Make a check of a method that yields what it finds.

    :param service: name of the service that it is for, which may not be what
        the configuration is of
    """
    def decorate(find):
        @functools.wraps(find)
        def check(self):
            if service and service not in self.services:
                return upgradecheck.Result(
                    SUCCESS, 'This is no configuration of %s for priority '
                    'instances.' % service)
            found = list(find(self))
            return upgradecheck.Result(
                max((code for code, _ in found), default=SUCCESS),
                ' '.join(sentence for _, sentence in found) or None)
        return check
    return decorate


class Checks(upgradecheck.UpgradeCommands):
    """What is checked, one method for each; a remedy for each finding."""

    display_title = 'Priority instances: check of the configuration'

    def __init__(self, conf, check_host=('check',)):
        """Read nothing yet.

        :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
        :param check_host: arguments of nova-prio-host
        """
        self._conf = conf
        self._check_host = check_host

    def check(self):
        """Check all; return the worst code."""
        try:
            return super().check()
        except cfg.ConfigFileValueError as error:
            print('%s.' % error, file=sys.stderr)
            return FAILURE

    @property
    def services(self):
        """The names of the services that use this configuration, a list."""
        options = self._conf.filter_scheduler
        uses = {
            contract.API: self._conf.nova_prio.enabled,
            contract.SCHEDULER: 'PriorityFilter' in options.enabled_filters or
            any(name.startswith('nova_prio.') for name in
                [*options.available_filters, *options.weight_classes]),
            contract.COMPUTE: self._conf.compute_driver == DRIVER}
        return [service for service, is_used in uses.items() if is_used]

    @_check()
    def _use(self):
        for group, name in NAMES:
            value = (self._conf[group] if group else self._conf)[name]
            if '#' in ','.join([value] if isinstance(value, str)
                               else value or ()):
                yield FAILURE, (
                    '[%s] %s is %s, comment included; put the comment on a '
                    'line of its own.' % (group or 'DEFAULT', name, value))
        if not self.services:
            yield WARNING, (
                'Nothing in this configuration asks for priority instances: '
                'compute_driver is %s, [filter_scheduler] enabled_filters has '
                "no 'PriorityFilter' and [nova_prio] enabled is false; with "
                '--config-file, give the file of a service that does.'
                % self._conf.compute_driver)
        elif (self._conf.cpu_priority_mix_enable and
              contract.COMPUTE not in self.services):
            yield FAILURE, (
                '[DEFAULT] cpu_priority_mix_enable is true, but [DEFAULT] '
                "compute_driver is %s, which does not read it; set it to '%s'."
                % (self._conf.compute_driver, DRIVER))

    @_check()
    def _options(self):
        yield from _all(WARNING, config_files.find_unknown_options(self._conf))

    @_check()
    def _release(self):
        for service in self.services:
            for mismatch in contract.find_mismatches(service):
                yield FAILURE, (
                    'Nova does not match this package in %s: %s; install a '
                    'release of nova-prio that supports this Nova.'
                    % (service, mismatch))
        release = contract.get_nova_release()
        if not contract.is_tested(release):
            yield WARNING, (
                'nova-prio is not tested with Nova %s, only with %s; try it '
                'on one host first.' % (release, ', '.join(
                    map(str, contract.TESTED_RELEASES))))

    @_check(contract.API)
    def _api(self):
        yield from _missing(VALIDATORS, 'nova-api folds no priority')
        yield from _all(WARNING, of_api.find_warnings(self._conf))

    @_check(contract.SCHEDULER)
    def _scheduler(self):
        options = self._conf.filter_scheduler
        if not any(name.startswith(OUR_FILTERS)
                   for name in options.available_filters):
            yield FAILURE, (
                '[filter_scheduler] available_filters is %s, where Nova does '
                "not find 'PriorityFilter'; add '%sall_filters'."
                % (options.available_filters, OUR_FILTERS))
        yield from _all(FAILURE, of_scheduler.find_problems(self._conf))
        if not any(name.startswith(OUR_WEIGHERS)
                   for name in options.weight_classes):
            yield WARNING, (
                '[filter_scheduler] weight_classes is %s, without '
                "'%sall_weighers', so that hosts are not weighed by the CPUs "
                'that are left for a priority; add it.'
                % (options.weight_classes, OUR_WEIGHERS))
        yield from _all(WARNING, of_scheduler.find_warnings(self._conf))

    @_check(contract.COMPUTE)
    def _compute(self):
        from nova_prio.compute import config_checks as of_compute
        yield from _missing(PLUGINS, "nova-compute does not find '%s'"
                            % DRIVER)
        yield from _all(FAILURE, of_compute.find_problems(self._conf))
        name = 'ram_allocation_ratio'
        if self._conf[name] is None:
            name = 'initial_ram_allocation_ratio'
        if self._conf.cpu_priority_mix_enable and self._conf[name] > 1:
            yield WARNING, (
                '[DEFAULT] %s is %s, of which a host with '
                'cpu_priority_mix_enable uses 1.0; set it to 1.0.'
                % (name, self._conf[name]))

    @_check(contract.COMPUTE)
    def _cgroups(self):
        # What is wrong is so in each hierarchy of cgroup v1.
        first, *more = host.find_problems(self._check_host) or [None]
        if first:
            yield FAILURE, first
        if more:
            yield FAILURE, ('"nova-prio-host check" shows %d more.'
                            % len(more))

    @_check()
    def _aggregates(self):
        if not self._conf.api_database.connection:
            yield SUCCESS, (
                'There is no [api_database] connection here, as on a compute '
                'host; host aggregates are not looked at.')
            return
        # Takes a second to import.
        from nova import context
        from nova import objects

        from nova_prio.admin import host_inventory
        try:
            host_inventory.connect_databases(self._conf)
            admin = context.get_admin_context()
            aggregates = list(objects.AggregateList.get_all(admin))
            hosts, silent = host_inventory.list_hosts(admin)
        except host_inventory.DATABASE_ERRORS as error:
            yield FAILURE, (
                'The database of [api_database] connection cannot be read: '
                '%s; correct the option, or the database.'
                % str(error).splitlines()[0].rstrip('.'))
            return
        for cell in silent:
            yield WARNING, (
                'Cell %s does not answer, so that its hosts are not looked '
                'at; see to its database.' % cell)
        yield from _all(WARNING, aggregate_checks.find_warnings(
            self._conf, self.services, aggregates, hosts, not silent))
        yield from _all(WARNING, aggregate_checks.find_mirror_warnings(
            aggregates, hosts))

    _upgrade_checks = (
        ('Use of the package', _use),
        ('Unknown options', _options),
        ('Release of Nova', _release),
        ('Configuration of nova-api', _api),
        ('Configuration of nova-scheduler', _scheduler),
        ('Configuration of nova-compute', _compute),
        ('Cgroups of the compute host', _cgroups),
        ('Host aggregates', _aggregates),
    )


def main():
    """Run the command line.

    :returns: exit status: 0 where all is right, 1 after a warning, 2 after a
        failure, 255 where the check itself did not work
    """
    if sys.argv[1:2] == ['nova']:
        # It reads no configuration, so that none can keep it from its answer.
        return nova_check.main(sys.argv[2:])
    # What Nova logs of a cell that fails, traceback included, is in the
    # findings.
    logging.getLogger('nova').addHandler(logging.NullHandler())
    conf = hooks.register_options()
    try:
        return upgradecheck.main(conf, 'nova', Checks(conf), sys.argv[1:])
    except config_files.ERRORS as error:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument('--config-file', action='append', default=[])
        files = parser.parse_known_args()[0].config_file
        print(config_files.format_read_error(error, files), file=sys.stderr)
        return UNUSABLE


if __name__ == '__main__':
    sys.exit(main())
