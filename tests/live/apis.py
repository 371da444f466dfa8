# SPDX-License-Identifier: Apache-2.0

"""The APIs of a live cloud, each served by uWSGI."""

import collections

from tests.live import layout as layouts

Api = collections.namedtuple('Api', 'module processes threads environment')


def apis(layout):
    """Return dict, listener -> Api."""
    etc = layout.etc
    return {
        'identity': Api('keystone.wsgi.api', 1, 8, {
            'OS_KEYSTONE_CONFIG_FILES': etc / 'keystone' / 'keystone.conf'}),
        'placement': Api('placement.wsgi.api', 1, 8, {
            'OS_PLACEMENT_CONFIG_DIR': etc / 'placement'}),
        'image': Api('glance.wsgi.api', 1, 4, {
            'OS_GLANCE_CONFIG_DIR': etc / 'glance'}),
        'network': Api('neutron.wsgi.api', 1, 4, {
            'OS_NEUTRON_CONFIG_DIR': etc / 'neutron',
            'OS_NEUTRON_CONFIG_FILES': 'neutron.conf;ml2.ini'}),
        'compute': Api('nova.wsgi.osapi_compute', 2, 4, {
            'OS_NOVA_CONFIG_DIR': etc / 'nova',
            'OS_NOVA_CONFIG_FILES':
                'api-paste.ini;common.conf;nova.conf;readme-api.conf'}),
    }


def start(layout, processes, listener, nova):
    """Start an API and wait until uWSGI accepts its requests.

    :param nova: pathlib.Path of the virtual environment of nova-api
    """
    api = apis(layout)[listener]
    environment = layouts.PROGRAMS.parent
    if listener == 'compute':
        environment = nova
    processes.start(
        listener, layouts.PROGRAMS / 'uwsgi',
        '--http-socket', '%s:%d' % (layouts.ADDRESS, layout.port(listener)),
        '--module', api.module + ':application',
        '--processes', api.processes, '--threads', api.threads,
        '--thunder-lock', '--master', '--enable-threads', '--lazy-apps',
        '--die-on-term', '--need-app', '--worker-reload-mercy', 5,
        # Long lists of servers have long addresses.
        '--buffer-size', 65535, '--post-buffering', 65535,
        # Many clients may connect at once.
        '--listen', 1024,
        # uWSGI would reset connections that clients keep open.
        '--add-header', 'Connection: close',
        '--virtualenv', environment,
        environment={name: str(value)
                     for name, value in api.environment.items()})
    processes.wait_for_port(listener, listener)
