# SPDX-License-Identifier: Apache-2.0

"""The client ``openstack`` of a live cloud, as an operator runs it."""

import json
import os
import subprocess
import xml.etree.ElementTree

import tenacity

from tests.live import catalog
from tests.live import host
from tests.live import layout as layouts

#: Seconds that a command may take, a server's creation included.
SECONDS = 300
#: Seconds that a command of nova-prio may take.
COMMAND_SECONDS = 600


class Client:
    """Commands of ``openstack`` as the administrator of a layout."""

    def __init__(self, layout):
        self._layout = layout

    @property
    def _environment(self):
        """The environment variables of an administrator, a dict."""
        return {**os.environ, 'OS_CLOUD': catalog.CLOUD,
                'OS_CLIENT_CONFIG_FILE':
                    str(self._layout.directory / 'clouds.yaml')}

    def run(self, *words, check=True):
        """Run a command and return its output, a str.

        :raises RuntimeError: if it fails, unless check is False
        """
        done = subprocess.run(
            [str(layouts.PROGRAMS / 'openstack'), *map(str, words)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            cwd=self._layout.directory, timeout=SECONDS,
            env=self._environment)
        if check and done.returncode:
            raise RuntimeError('%s: %s' % (' '.join(map(str, words)),
                                           done.stderr))
        return done.stdout

    def start_nova_prio(self, *words):
        """Start a command of ``nova-prio`` on the controller.

        :returns: subprocess.Popen, with standard output and error as text
        """
        return subprocess.Popen(
            [str(word) for word in (
                layouts.PROGRAMS / 'nova-prio', *words,
                *self._layout.nova_options)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self._environment)

    def nova_prio(self, *words, status=0):
        """Run a command of ``nova-prio`` and return its output, a str.

        :raises RuntimeError: if its exit status is another one
        """
        with self.start_nova_prio(*words) as command:
            out, err = command.communicate(timeout=COMMAND_SECONDS)
        if command.returncode != status:
            raise RuntimeError('%s: exit status %d. %s%s' % (
                ' '.join(map(str, words)), command.returncode, out, err))
        return out

    def show(self, *words):
        """Run a command that prints data, and return the data."""
        return json.loads(self.run(*words, '--format', 'json'))

    def boot(self, name, flavor, *words):
        """Create a server and wait until it is ACTIVE or in ERROR.

        :returns: dict, the output of ``server show``
        """
        self.run('server', 'create', '--flavor', flavor, '--image', 'guest',
                 '--nic', 'none', '--wait', *words, name, check=False)
        return self.show('server', 'show', name)

    def wait(self, name, status):
        """Wait until a server has a status; return the output of ``show``.

        :raises RuntimeError: if it takes too long
        """
        try:
            return tenacity.retry(
                retry=tenacity.retry_if_result(
                    lambda server: server['status'] != status),
                stop=tenacity.stop_after_delay(SECONDS),
                wait=tenacity.wait_fixed(1))(
                    self.show)('server', 'show', name)
        except tenacity.RetryError as error:
            raise RuntimeError('%s does not become %s but is %s.' % (
                name, status, error.last_attempt.result()['status'])
            ) from error


def guests(layout, name):
    """Return the names of all guests of a host, running or not."""
    return virsh(layout, name, 'list', '--all', '--name').split()


def virsh(layout, name, *words):
    """Run virsh on a host and return its output, a str."""
    return subprocess.run(
        ['virsh', '--quiet',
         '--connect', host.read_record(layout, name)['uri'], *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        timeout=SECONDS).stdout


def domain(layout, server):
    """Return the XML of a server's guest, an Element.

    :param server: dict, the output of ``server show``
    """
    return xml.etree.ElementTree.fromstring(virsh(
        layout, server['OS-EXT-SRV-ATTR:host'], 'dumpxml',
        server['OS-EXT-SRV-ATTR:instance_name']))
