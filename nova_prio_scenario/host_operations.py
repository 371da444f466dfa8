# SPDX-License-Identifier: Apache-2.0

"""The operations of an operator on a host of an embedded cloud."""

from nova_prio_scenario import host_options


class HostOperations:
    """A part of :class:`nova_prio_scenario.cloud.Cloud`."""

    def host_down(self, name):
        """Stop a host, and force its service down as an operator does."""
        self.computes[name].stop()
        self._force_down(name, is_down=True)
        self.hosts_down.add(name)

    def host_up(self, name):
        """Start a host that is down, with the guests it had."""
        self.restart_compute_service(name)
        self._force_down(name, is_down=False)
        self.hosts_down.remove(name)
        self.update_host(name)

    def _force_down(self, name, is_down):
        """Set or clear the forced-down state of the service of a host."""
        self.admin_api.put_service_force_down(
            self.get_service(name)['id'], is_down)

    def get_service(self, name):
        """Return the nova-compute service of a host as the API shows it."""
        service, = self.admin_api.get_services(
            host=name, binary='nova-compute')
        return service

    def host_disable(self, name):
        """Disable the service of a host: it takes no more instances."""
        self._set_status(name, 'disabled')

    def host_enable(self, name):
        """Enable the service of a host."""
        self._set_status(name, 'enabled')

    def _set_status(self, name, status):
        """Set the status of a service, 'enabled' or 'disabled'."""
        self.admin_api.put_service(
            self.get_service(name)['id'], {'status': status})

    def host_change(self, name, **options):
        """Restart the nova-compute of a host with changed options.

        If it does not start, start it with its former options again.

        :param options: dict, parameter of ``Cloud.start_host`` that sets an
            option, to its new value
        :raises BaseException: the error with which nova-compute did not start
        """
        options_before = self._host_options[name]
        compute = self.computes[name]
        provider = self.compute_rp_uuids[name]
        connection = self.mock_conn.return_value
        # The running nova-compute keeps the former dict.
        changed_options = host_options.make_options(**options)
        self._host_options[name] = options_before | changed_options
        try:
            self.restart_compute_service(name)
        except BaseException:
            # Nova's test code does not expect the error.
            self._host_options[name] = options_before
            self.computes[name] = compute
            self.compute_rp_uuids[name] = provider
            self.mock_conn.return_value = connection
            self.restart_compute_service(name)
            raise
        self.update_host(name)

    def get_options(self, name, parameters):
        """Return the options of a host, a dict, parameter to value.

        :param parameters: iterable of the parameters of ``Cloud.start_host``
            that set options
        """
        values = {}
        for parameter in parameters:
            option = host_options.NAMES[parameter]
            values[parameter] = self._host_options[name][option]
        return values
