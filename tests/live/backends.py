# SPDX-License-Identifier: Apache-2.0

"""The database and the message broker of a live cloud."""

import pymysql

from tests.live import layout as layouts

DATABASES = ('keystone', 'placement', 'glance', 'neutron', 'nova_api', 'nova',
             'nova_cell0')
BROKER = '/usr/lib/rabbitmq/bin/rabbitmq-server'


def start_broker(layout, processes):
    """Start RabbitMQ and its port mapper, epmd.

    If RabbitMQ started epmd itself, epmd would keep running after ``down``.
    """
    directory = layout.directory / 'messages'
    directory.mkdir(exist_ok=True)
    (directory / 'rabbitmq.conf').write_text(
        'default_user = %s\ndefault_pass = %s\n' % (
            layouts.USER, layouts.PASSWORD))
    (directory / 'enabled').write_text('[].\n')
    environment = {
        'HOME': directory, 'ERL_EPMD_ADDRESS': layouts.ADDRESS,
        'ERL_EPMD_PORT': layout.port('epmd'),
        'RABBITMQ_NODENAME': 'live%d@localhost' % layout.first_port,
        'RABBITMQ_NODE_IP_ADDRESS': layouts.ADDRESS,
        'RABBITMQ_NODE_PORT': layout.port('messages'),
        'RABBITMQ_DIST_PORT': layout.port('erlang'),
        'RABBITMQ_MNESIA_BASE': directory, 'RABBITMQ_LOG_BASE': layout.log,
        'RABBITMQ_CONFIG_FILE': directory / 'rabbitmq',
        'RABBITMQ_ENABLED_PLUGINS_FILE': directory / 'enabled'}
    environment = {name: str(value) for name, value in environment.items()}
    processes.start('epmd', 'epmd', environment=environment)
    processes.wait_for_port('epmd', 'epmd')
    processes.start('messages', BROKER, environment=environment)


def start_database(layout, processes):
    """Start MariaDB; create empty databases at the first start."""
    directory = layout.directory / 'database'
    is_new = not directory.exists()
    if is_new:
        processes.run(
            'database', 'mariadb-install-db', '--no-defaults', '--user=root',
            '--datadir=%s' % directory, '--skip-test-db',
            '--auth-root-authentication-method=normal')
    processes.start(
        'database', 'mariadbd', '--no-defaults', '--user=root',
        '--datadir=%s' % directory, '--socket=%s' % (layout.run / 'db.sock'),
        '--port=%d' % layout.port('database'),
        '--bind-address=' + layouts.ADDRESS, '--max-connections=1000',
        '--innodb-flush-log-at-trx-commit=0', '--performance-schema=OFF')
    processes.wait_for_port('database', 'database')
    if is_new:
        _fill(layout)


def _fill(layout):
    connection = pymysql.connect(
        user='root', unix_socket=str(layout.run / 'db.sock'))
    with connection, connection.cursor() as cursor:
        for name in DATABASES:
            cursor.execute('CREATE DATABASE IF NOT EXISTS %s '
                           'CHARACTER SET utf8mb4' % name)
        for host in layouts.ADDRESS, 'localhost':
            cursor.execute("GRANT ALL ON *.* TO %s@%s IDENTIFIED BY %s",
                           (layouts.USER, host, layouts.PASSWORD))
