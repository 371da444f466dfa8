# SPDX-License-Identifier: Apache-2.0

"""The files and ports of a live cloud."""

import dataclasses
import json
import os
import pathlib
import sysconfig

#: The services that listen. Each has the first port plus its index.
LISTENERS = ('identity', 'compute', 'placement', 'image', 'network',
             'database', 'messages', 'erlang', 'epmd')
ADDRESS = '127.0.0.1'
USER = 'os'
PASSWORD = 'secret'
REGION = 'RegionOne'
#: Port of the SSH server of each host.
SSH_PORT = 2022
#: Directories of the installed programs and of their sample files.
PROGRAMS = pathlib.Path(sysconfig.get_path('scripts'))
SAMPLES = pathlib.Path(sysconfig.get_path('data'), 'etc')
README = pathlib.Path(__file__).parents[2] / 'README.rst'
#: Environment variable with the directory of the cloud.
VARIABLE = 'NOVA_PRIO_LIVE'


@dataclasses.dataclass(frozen=True)
class Layout:
    """The directory and the ports of one cloud.

    All files of the cloud are below ``directory``. Two clouds must not share
    a directory or a port.
    """

    directory: pathlib.Path
    first_port: int = 15000
    hosts: tuple = ('compute1', 'compute2')

    def __post_init__(self):
        if not 1024 <= self.first_port <= 65536 - len(LISTENERS):
            raise ValueError(
                'The first port is %d; allowed are 1024 to %d.' % (
                    self.first_port, 65536 - len(LISTENERS)))

    @classmethod
    def of_size(cls, directory, first_port, number):
        """Return the layout of a cloud with a number of hosts."""
        return cls(directory, first_port, tuple(
            'compute%d' % each for each in range(1, number + 1)))

    @classmethod
    def load(cls, directory):
        """Return the layout that ``save`` wrote into a directory."""
        file = directory / 'layout.json'
        if not file.exists():
            raise FileNotFoundError(
                'There is no cloud in %s: run "up" first.' % directory)
        found = json.loads(file.read_text())
        return cls(directory, found['first_port'], tuple(found['hosts']))

    @classmethod
    def of_environment(cls):
        """Return the layout of the cloud that the environment names.

        :raises ValueError: if NOVA_PRIO_LIVE is not set
        """
        directory = os.environ.get(VARIABLE)
        if not directory:
            raise ValueError(
                '%s names no directory: see tests.live.' % VARIABLE)
        return cls.load(pathlib.Path(directory).absolute())

    def save(self):
        """Create the directory and write the layout into it.

        :raises ValueError: if the directory has a cloud on other ports
        """
        file = self.directory / 'layout.json'
        if file.exists() and self.load(self.directory) != self:
            raise ValueError(
                'The cloud in %s has the first port %d and the hosts %s. To '
                'change them, run "down" and delete the directory.' % (
                    self.directory, self.load(self.directory).first_port,
                    ', '.join(self.load(self.directory).hosts)))
        for path in self.etc, self.log, self.run:
            path.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(
            {'first_port': self.first_port, 'hosts': self.hosts}))

    @property
    def etc(self):
        """The directory of all configuration files."""
        return self.directory / 'etc'

    def drop_ins(self, host):
        """Return the directory that nova-compute of a host reads last."""
        return self.etc / 'nova' / (host + '.conf.d')

    @property
    def nova_options(self):
        """The options of nova-prio and nova-manage with the configuration."""
        return ['--config-file=%s' % (self.etc / 'nova' / name)
                for name in ('common.conf', 'nova.conf')]

    @property
    def state(self):
        """The state directory of the services of Nova and Neutron."""
        return self.directory / 'state'

    @property
    def compute_state(self):
        """The state directory of nova-compute, as each host sees it.

        Paths of instances have to be the same on all hosts.
        """
        return self.state / 'compute'

    @property
    def log(self):
        """The directory of the logs."""
        return self.directory / 'log'

    @property
    def run(self):
        """The directory of the records about processes."""
        return self.directory / 'run'

    def port(self, listener):
        """Return the port of one of LISTENERS, an int."""
        return self.first_port + LISTENERS.index(listener)

    def url(self, listener):
        """Return the URL of an API."""
        suffix = {'identity': '/v3', 'compute': '/v2.1'}.get(listener, '')
        return 'http://%s:%d%s' % (ADDRESS, self.port(listener), suffix)

    def database(self, name):
        """Return the URL of a database for SQLAlchemy."""
        return 'mysql+pymysql://%s:%s@%s:%d/%s?charset=utf8' % (
            USER, PASSWORD, ADDRESS, self.port('database'), name)

    def address(self, host):
        """Return the IP address of a host for incoming migrations."""
        return '127.%d.%d.%d' % (
            *divmod(self.first_port, 256), 2 + self.hosts.index(host))

    @property
    def transport_url(self):
        """The URL of the message broker."""
        return 'rabbit://%s:%s@%s:%d/' % (
            USER, PASSWORD, ADDRESS, self.port('messages'))
