# SPDX-License-Identifier: Apache-2.0

"""The files and ports of a live cloud."""

import dataclasses
import json
import os
import pathlib
import sysconfig

#: The services that listen, each on the first port plus its position here.
LISTENERS = ('identity', 'compute', 'placement', 'image', 'network',
             'database', 'messages', 'erlang', 'epmd')
ADDRESS = '127.0.0.1'
USER = 'os'
PASSWORD = 'secret'
REGION = 'RegionOne'
#: Port of the SSH server of each host.
SSH_PORT = 2022
#: The directory of the installed programs, and that of their samples.
PROGRAMS = pathlib.Path(sysconfig.get_path('scripts'))
SAMPLES = pathlib.Path(sysconfig.get_path('data'), 'etc')
README = pathlib.Path(__file__).parents[2] / 'README.rst'
#: Names the directory that ``python -m tests.live up`` was given.
VARIABLE = 'NOVA_PRIO_LIVE'


@dataclasses.dataclass(frozen=True)
class Layout:
    """One cloud: all that it writes is below ``directory``.

    Two clouds have directories and ports of their own.
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
    def load(cls, directory):
        """Return the layout that the cloud in a directory was made with."""
        file = directory / 'layout.json'
        if not file.exists():
            raise FileNotFoundError(
                'There is no cloud in %s: run "up" first.' % directory)
        found = json.loads(file.read_text())
        return cls(directory, found['first_port'], tuple(found['hosts']))

    @classmethod
    def of_environment(cls):
        """Return the layout of the cloud that the environment names.

        :raises ValueError: if it names none
        """
        directory = os.environ.get(VARIABLE)
        if not directory:
            raise ValueError(
                '%s names no directory: see tests.live.' % VARIABLE)
        return cls.load(pathlib.Path(directory).absolute())

    def save(self):
        """Make the directory and write down how it is laid out.

        :raises ValueError: if it has a cloud on other ports
        """
        file = self.directory / 'layout.json'
        if file.exists() and self.load(self.directory) != self:
            raise ValueError(
                'The cloud in %s has the first port %d, not %d: for another '
                'one, take it down and delete the directory.' % (
                    self.directory, self.load(self.directory).first_port,
                    self.first_port))
        for path in self.etc, self.log, self.run:
            path.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(
            {'first_port': self.first_port, 'hosts': self.hosts}))

    @property
    def etc(self):
        """The directory of all configuration files."""
        return self.directory / 'etc'

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
        """Return the address of an API."""
        suffix = {'identity': '/v3', 'compute': '/v2.1'}.get(listener, '')
        return 'http://%s:%d%s' % (ADDRESS, self.port(listener), suffix)

    def database(self, name):
        """Return SQLAlchemy's address of a database."""
        return 'mysql+pymysql://%s:%s@%s:%d/%s?charset=utf8' % (
            USER, PASSWORD, ADDRESS, self.port('database'), name)

    def address(self, host):
        """Return the address of a host for incoming migrations."""
        return '127.%d.%d.%d' % (
            *divmod(self.first_port, 256), 2 + self.hosts.index(host))

    @property
    def transport_url(self):
        """The address of the message broker."""
        return 'rabbit://%s:%s@%s:%d/' % (
            USER, PASSWORD, ADDRESS, self.port('messages'))
